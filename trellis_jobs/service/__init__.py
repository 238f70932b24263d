"""The API for service authors: declarations, queues, the connected service."""
