"""The stream JOBS: guarded appends, reads of a job's history, and the feed for projections."""
