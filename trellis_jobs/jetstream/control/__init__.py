"""The stream JOBS_CONTROL: records that processes change with compare-and-set."""
