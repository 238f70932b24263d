"""What a service author touches: declarations, queues, the connected service."""
