"""Who uses the console, and what the console lets them do.

A role is not the last line of defence: each one has its own connection to NATS, and the server
refuses what the credentials of that connection do not permit (design D35).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Role(StrEnum):
    """`VIEWER` reads, `OPERATOR` changes, `SECRETS` reveals secrets, `CREATOR` creates jobs."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    SECRETS = "secrets"
    CREATOR = "create"


ALL_ROLES: Final = frozenset(Role)


def nats_user(role: Role) -> str:
    """The NATS user of a role, as `trellis-jobs permissions --console` names it."""
    return f"console-{role}"


@dataclass(frozen=True, slots=True)
class User:
    """`name` is recorded as the author of every change."""

    name: str
    roles: frozenset[Role]

    def has(self, role: Role) -> bool:
        return role in self.roles
