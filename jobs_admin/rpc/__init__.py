"""The server side of the Jobs.* RPCs."""
