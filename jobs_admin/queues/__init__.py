"""The queues as operators see them, read and changed with only a connection to the server."""
