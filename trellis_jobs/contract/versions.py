"""Payloads of older code, brought up to the version that is declared, one step after the other."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from trellis_jobs.contract.payload_types import TypeMismatch
from trellis_jobs.errors import DeclarationError

if TYPE_CHECKING:
    from trellis_jobs.model.json_values import Json

# From the JSON of one version to that of the next.
Upgrade = Callable[[Any], Any]
Upgrades = Mapping[int, Upgrade]


def check_versions(version: int, upgrades: Upgrades) -> None:
    """Without a gap: whoever can be upgraded at all gets to the newest version."""
    # Not isinstance: True is an int.
    if type(version) is not int or version < 1:
        raise DeclarationError(f"version must be a whole number from 1 on, is {version!r}")
    for step, upgrade in upgrades.items():
        if not callable(upgrade):
            raise DeclarationError(f"upgrades[{step!r}] must be a function, is {upgrade!r}")
    if set(upgrades) != set(range(upgrades_from(version, upgrades), version)):
        raise DeclarationError(
            f"upgrades must lead, without a gap, from an earlier version to version {version}: "
            f"there are {sorted(upgrades, key=repr)}"
        )


def upgrades_from(version: int, upgrades: Upgrades) -> int:
    """The oldest version whose payloads still can be read."""
    return min(upgrades, default=version)


def upgraded(
    payload: Json, *, since: int, to: int, upgrades: Upgrades, has_secrets: bool = False
) -> Json:
    """Raises TypeMismatch where there is no way, or where a step of it fails.

    What a step says may quote a secret, so it is not repeated where there are any.
    """
    if since == to:
        return payload
    if since not in upgrades:
        raise TypeMismatch(
            f"it is of version {since}, and nothing leads from there to version {to}"
        )
    # Each step may change what it is given.
    payload = copy.deepcopy(payload)
    for version in range(since, to):
        try:
            payload = upgrades[version](payload)
        except Exception as error:
            said = type(error).__name__ if has_secrets else f"{type(error).__name__}: {error}"
            raise TypeMismatch(
                f"the upgrade from version {version} to {version + 1} failed: {said}"
            ) from (None if has_secrets else error)
    return payload


def upgraded_elsewhere(_payload: Any) -> Any:
    """Stands for the steps of a contract whose code is not at hand."""
    raise NotImplementedError("the upgrades of this queue are in its service's own code")
