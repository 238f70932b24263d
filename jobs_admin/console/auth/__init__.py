"""Signing in to the console: passwords, bearer tokens, or a proxy that has signed users in."""
