"""Creates jobs, and reads, follows and cancels them."""
