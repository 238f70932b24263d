"""The bucket JOBS_KEYS: key states and slot leases under compare-and-set."""
