"""What operators and maintenance do to jobs and keys: guarded changes of the log and the bucket."""
