"""Reports: long jobs with progress, a deadline, cancellation, and a file as the result."""
