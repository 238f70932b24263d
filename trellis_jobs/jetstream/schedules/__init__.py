"""Schedules: their records in JOBS_CONTROL, and changes of them."""
