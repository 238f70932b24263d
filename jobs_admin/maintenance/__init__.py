"""Automatic maintenance: deadlines, delivery limits, lost work, leftover keys, retention."""
