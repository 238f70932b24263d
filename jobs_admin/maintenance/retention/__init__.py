"""How long jobs are kept, and where they go."""
