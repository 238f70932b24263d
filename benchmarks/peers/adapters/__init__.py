"""One file a tool; each is imported in that tool’s own virtual environment only."""
