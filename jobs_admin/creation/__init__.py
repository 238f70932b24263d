"""Create a job in any queue from its published contract, by the same rules as its service does."""
