"""Upgrade payloads of older versions to the declared version, one step at a time."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from trellis_jobs.contract.payload_types import TypeMismatch
from trellis_jobs.errors import DeclarationError

if TYPE_CHECKING:
    from trellis_jobs.model.json_values import Json

# Converts the JSON of one version to that of the next.
Upgrade = Callable[[Any], Any]
Upgrades = Mapping[int, Upgrade]


def check_versions(version: int, upgrades: Upgrades) -> None:
    """Raises DeclarationError unless the upgrades lead to `version` without a gap."""
    # Not isinstance: True is an int.
    if type(version) is not int or version < 1:
        raise DeclarationError(f"version must be a whole number of at least 1, is {version!r}")
    for step, upgrade in upgrades.items():
        if not callable(upgrade):
            raise DeclarationError(f"upgrades[{step!r}] must be a function, is {upgrade!r}")
    if set(upgrades) != set(range(oldest_supported(version, upgrades), version)):
        raise DeclarationError(
            f"upgrades must cover every version up to {version - 1} without a gap, found "
            f"{sorted(upgrades, key=repr)}"
        )


def oldest_supported(version: int, upgrades: Upgrades) -> int:
    """The oldest version whose payloads can still be read."""
    return min(upgrades, default=version)


def upgrade(
    payload: Json, *, since: int, to: int, upgrades: Upgrades, has_secrets: bool = False
) -> Json:
    """Upgrade a payload. Raises TypeMismatch if there is no upgrade, or if one fails.

    The message of a failed upgrade may quote a secret, so `has_secrets` leaves it out.
    """
    if since == to:
        return payload
    if since not in upgrades:
        raise TypeMismatch(f"it has version {since}, and there is no upgrade to version {to}")
    # A copy, because upgrades may modify their argument.
    payload = copy.deepcopy(payload)
    for version in range(since, to):
        try:
            payload = upgrades[version](payload)
        except Exception as error:
            problem = type(error).__name__ if has_secrets else f"{type(error).__name__}: {error}"
            raise TypeMismatch(
                f"the upgrade from version {version} to {version + 1} failed: {problem}"
            ) from (None if has_secrets else error)
    return payload


def upgraded_elsewhere(_payload: Any) -> Any:
    """Placeholder for upgrades whose code is in another service."""
    raise NotImplementedError("the upgrades of this queue are in the code of its service")
