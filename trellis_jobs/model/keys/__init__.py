"""Keys: how many jobs of one key run at once, and which of them wait."""
