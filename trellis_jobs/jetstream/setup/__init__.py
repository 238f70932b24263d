"""Streams, consumers and buckets: planned, created, and checked."""
