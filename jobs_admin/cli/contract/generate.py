"""`trellis-jobs contract generate`: Python code from a manifest, checked before it is written."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Final

import typer

from jobs_admin.cli.contract.documents import OutFile, write
from jobs_admin.cli.queue_contract import read_manifest
from trellis_jobs.contract.change_rules import ChangeClass
from trellis_jobs.contract.changes import ContractChange, changes
from trellis_jobs.contract.codegen.inert import check_inert
from trellis_jobs.contract.codegen.module import generate_module
from trellis_jobs.contract.manifest import from_manifest, to_manifest
from trellis_jobs.errors import DeclarationError
from trellis_jobs.service.jobs import Jobs

_TRIAL: Final = "trellis_jobs_generated"


def generate(
    manifest: Annotated[
        Path, typer.Argument(help="A manifest file.", exists=True, dir_okay=False, metavar="FILE")
    ],
    out: OutFile = None,
) -> None:
    """Generate a typed Python module: a model for each payload and result, and the Jobs class.

    The command refuses a manifest that Python types cannot express, and names the place.
    """
    write(generated(read_manifest(manifest)), out)


def generated(manifest: Mapping[str, Any]) -> str:
    """Python source that was executed once. Raises only DeclarationError, for any manifest."""
    try:
        document = to_manifest(from_manifest(manifest))
        source = generate_module(document)
        check_inert(source)
        check_stable(document, manifest_of(source))
    except DeclarationError:
        raise
    except Exception as error:
        raise DeclarationError(f"cannot generate a module from it: {error}") from error
    return source


def manifest_of(source: str) -> Mapping[str, Any]:
    """The manifest of the Jobs class in the generated module."""
    module = ModuleType(_TRIAL)
    sys.modules[_TRIAL] = module  # pydantic resolves the models' forward references there
    try:
        exec(compile(source, _TRIAL, "exec"), vars(module))  # noqa: S102 - check_inert() has passed
        found = [each for each in vars(module).values() if _is_jobs(each)]
        return to_manifest(found[0].contract)
    finally:
        del sys.modules[_TRIAL]


def _is_jobs(found: object) -> bool:
    return isinstance(found, type) and issubclass(found, Jobs) and found is not Jobs


def check_stable(given: Mapping[str, Any], generated: Mapping[str, Any]) -> None:
    """Check that settings are equal and types accept the same values; descriptions may differ."""
    for one, other in ((given, generated), (generated, given)):
        for change in changes(one, other):
            if (
                change.field not in ("payload", "result")
                or change.change_class is ChangeClass.MIGRATION
            ):
                raise DeclarationError(_message(change))


def _message(change: ContractChange) -> str:
    place = ".".join(filter(None, ("jobs", change.queue, change.field)))
    return f"{place} cannot be expressed in Python: {change.why}"
