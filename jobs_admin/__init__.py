"""What operators run: the admin runtime, the command line and the client."""
