"""The bucket JOBS_KEYS: key states and slot leases, changed with compare-and-set."""
