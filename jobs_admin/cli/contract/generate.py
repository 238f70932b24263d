"""`trellis-jobs contract generate`: a manifest as Python, tried before it is handed out."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Final

import typer

from jobs_admin.cli.contract.documents import OutFile, write
from jobs_admin.cli.queue_contract import read_manifest
from trellis_jobs.contract.changes import ContractChange, Weight, changes
from trellis_jobs.contract.codegen.inert import check_inert
from trellis_jobs.contract.codegen.module import facade
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
    """A typed Python module: a model for each payload and result, and the Jobs class.

    What a manifest says and Python cannot is refused, by its place.
    """
    write(generated(read_manifest(manifest)), out)


def generated(manifest: Mapping[str, Any]) -> str:
    """Python source that was tried; raises DeclarationError, whatever the manifest says."""
    try:
        document = to_manifest(from_manifest(manifest))
        source = facade(document)
        check_inert(source)
        check_stable(document, manifest_of(source))
    except DeclarationError:
        raise
    except Exception as error:
        raise DeclarationError(f"no module can be made of it: {error}") from error
    return source


def manifest_of(source: str) -> Mapping[str, Any]:
    """What the generated module says of itself."""
    module = ModuleType(_TRIAL)
    sys.modules[_TRIAL] = module  # where models look for the classes that they name
    try:
        exec(compile(source, _TRIAL, "exec"), vars(module))  # noqa: S102 - it only declares
        found = [each for each in vars(module).values() if _is_jobs(each)]
        return to_manifest(found[0].contract)
    finally:
        del sys.modules[_TRIAL]


def _is_jobs(found: object) -> bool:
    return isinstance(found, type) and issubclass(found, Jobs) and found is not Jobs


def check_stable(wanted: Mapping[str, Any], made: Mapping[str, Any]) -> None:
    """The same settings, and types that let the same through: words in schemas may differ."""
    for one, other in ((wanted, made), (made, wanted)):
        for change in changes(one, other):
            if change.field not in ("payload", "result") or change.weight is Weight.MIGRATION:
                raise DeclarationError(_complaint(change))


def _complaint(change: ContractChange) -> str:
    place = ".".join(filter(None, ("jobs", change.queue, change.field)))
    return f"{place} cannot be written in Python as it is: {change.why}"
