"""The web console: its pages over HTTP, and in a real browser."""
