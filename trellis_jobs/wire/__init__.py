"""Bytes to values and back: the camelCase of messages lives here and nowhere else."""
