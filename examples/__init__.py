"""Small example services to read, run and copy."""
