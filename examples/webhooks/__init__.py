"""Webhook delivery with signatures and retries, until the receiver unsubscribes."""
