"""Jobs from code without an event loop: one background thread runs the async implementation."""
