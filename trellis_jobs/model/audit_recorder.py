"""Who records what an operator did."""

from __future__ import annotations

from enum import StrEnum


class AuditRecorder(StrEnum):
    """The admin runtime, or a command that acted without one.

    They have different subjects, so that the credentials of an operator do not permit to replace
    the records of the admin runtime.
    """

    ADMIN = "admin"
    COMMAND = "command"
