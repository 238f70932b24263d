"""Sync of many tenants: one at a time for each tenant, without duplicate requests."""
