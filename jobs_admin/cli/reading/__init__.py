"""Jobs, read from the admin runtime, or from the log itself where none answers."""
