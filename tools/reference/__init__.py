"""Writers of docs/reference."""
