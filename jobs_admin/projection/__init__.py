"""The log as rows: a view that may be deleted at any time and is made again from the log."""
