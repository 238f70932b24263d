"""Schedules as operators see them: a copy of their records, changes of them, and views."""
