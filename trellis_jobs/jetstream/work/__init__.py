"""The stream JOBS_WORK: consumers, deliveries, and the leases of running jobs."""
