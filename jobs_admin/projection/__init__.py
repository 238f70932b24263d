"""The log as rows in SQLite: a view that can be deleted and rebuilt from the log at any time."""
