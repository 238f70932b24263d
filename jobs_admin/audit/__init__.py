"""What operators did that is not an event of a job: records in JOBS_CONTROL."""
