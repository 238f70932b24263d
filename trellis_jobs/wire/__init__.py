"""Encode and decode messages. Only this package knows their camelCase field names."""
