"""How fast jobs go, as a share of what the same connection does with no job logic at all."""
