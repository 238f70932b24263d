"""Read jobs from the admin runtime, or from the log if no admin runtime answers."""
