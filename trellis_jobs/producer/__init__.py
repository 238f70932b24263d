"""Creating work, and holding on to it."""
