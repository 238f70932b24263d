"""Values and rules: what a job is, what may happen to it, and what follows. No I/O, no clock."""
