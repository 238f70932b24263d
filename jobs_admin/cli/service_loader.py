"""Import the Service object that `MODULE:SERVICE` names, or only its contract."""

from __future__ import annotations

import importlib
import sys
import traceback
from pathlib import Path
from typing import Any

import typer

from trellis_jobs.contract.declaration import ServiceContract
from trellis_jobs.errors import JobsError
from trellis_jobs.service.jobs import Jobs
from trellis_jobs.service.service import Service


class CannotLoad(JobsError):
    """The named service cannot be loaded; the message says which part of the name is wrong."""


def load_service(named: str) -> Service[Any]:
    found = _load(named)
    if not isinstance(found, Service):
        raise CannotLoad(f"{named} is a {type(found).__name__}, not a trellis_jobs.Service")
    return found


def load_contract(named: str) -> ServiceContract:
    """Load the contract of a Service, or of a Jobs class: generated modules have only that."""
    found = _load(named)
    if isinstance(found, Service) or (isinstance(found, type) and issubclass(found, Jobs)):
        contract = getattr(found, "contract", None)
        if isinstance(contract, ServiceContract):
            return contract
    raise CannotLoad(f"{named} is neither a trellis_jobs.Service nor a Jobs class")


def _load(named: str) -> Any:
    """Import as `python -m` does, with the current directory on the path."""
    module_name, path = split_name(named)
    found = _import(module_name)
    for attribute in path.split("."):
        try:
            found = getattr(found, attribute)
        except AttributeError:
            raise CannotLoad(f"module {module_name!r} has no attribute {path!r}") from None
    return found


def split_name(named: str) -> tuple[str, str]:
    module_name, colon, path = named.partition(":")
    if not (module_name and colon and path):
        raise typer.BadParameter(f"{named!r} is not of the form MODULE:SERVICE")
    return module_name, path


def _import(module_name: str) -> Any:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{module_name}.".startswith(f"{error.name}."):
            raise CannotLoad(
                f"no module named {error.name!r}, neither in {here} nor installed"
            ) from None
        raise _broken(module_name, error) from error
    except Exception as error:
        raise _broken(module_name, error) from error


def _broken(module_name: str, error: Exception) -> CannotLoad:
    """One line with the error, the file and the line."""
    what, where = _culprit(error)
    return CannotLoad(
        f"module {module_name!r} cannot be imported: {type(error).__name__}: {what} ({where})"
    )


def _culprit(error: Exception) -> tuple[object, str]:
    """The error and its location: the last frame, or the position of a syntax error."""
    if isinstance(error, SyntaxError) and error.filename is not None:
        return error.msg, f"{error.filename}:{error.lineno}"
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return error, f"{frame.filename}:{frame.lineno}"
