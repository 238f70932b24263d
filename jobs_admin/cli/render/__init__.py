"""How things look on a terminal, and in a pipe."""
