"""A typed Python module made of a manifest: for those who use a service without its code."""
