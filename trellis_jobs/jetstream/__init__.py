"""The doors to the server, and the only importer of nats-py."""
