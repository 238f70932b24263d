"""A job in a file: its whole history, its contract and its explanation, to be shown anywhere."""
