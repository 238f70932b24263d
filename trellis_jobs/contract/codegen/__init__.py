"""Generate a typed Python module from a manifest, for users of a service without its code."""
