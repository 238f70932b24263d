"""The operators' side of trellis-jobs: what watches and steers the jobs of all services."""
