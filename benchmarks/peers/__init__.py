"""Ours against other job systems for Python, in one run on one machine: `make bench-peers`."""
