"""Small services to read, run and copy from."""
