"""Removes ended jobs from the log after a while, and archives them."""
