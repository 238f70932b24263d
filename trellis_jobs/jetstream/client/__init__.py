"""The connection to NATS: the only package that imports nats-py."""
