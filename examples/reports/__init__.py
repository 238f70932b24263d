"""Reports: long work with progress, a deadline, a cancel, and a file as its result."""
