"""Sync of many tenants: at most one at a time for each, and no pile of requests."""
