"""Jobs for code without an event loop. A background thread runs the async implementation."""
