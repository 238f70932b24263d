"""Changes to jobs and keys by operators and maintenance, each guarded against races."""
