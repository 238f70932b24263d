"""The base of all errors."""

from __future__ import annotations


class JobsError(Exception):
    """Base of every error raised on purpose."""
