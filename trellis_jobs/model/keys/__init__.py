"""Keys: which jobs of one key run, and which wait."""
