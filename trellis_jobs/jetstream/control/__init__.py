"""The stream JOBS_CONTROL: records that processes change under compare-and-set."""
