"""Groups of options: a dataclass that several commands take as one parameter."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any, get_type_hints

from typing_extensions import TypeIs


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Expand each parameter whose type is a dataclass into one option per field.

    The fields are declared like typer parameters: `Annotated[type, typer.Option(...)]`.
    """
    hints = get_type_hints(command, include_extras=True)
    groups = {name: hint for name, hint in hints.items() if _is_group(hint)}

    @functools.wraps(command)
    def with_groups(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{each.name: given.pop(each.name) for each in fields(group)})
        command(**given)

    parameters = list(_expanded(command, hints, groups))
    with_groups.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    with_groups.__annotations__ = {each.name: each.annotation for each in parameters}
    return with_groups


def _is_group(hint: Any) -> TypeIs[type[Any]]:
    return isinstance(hint, type) and is_dataclass(hint)


def _expanded(
    command: Callable[..., None], hints: dict[str, Any], groups: dict[str, type[Any]]
) -> Iterator[inspect.Parameter]:
    """All parameters are keyword-only: typer passes them by name."""
    for name, parameter in inspect.signature(command).parameters.items():
        if name not in groups:
            yield _keyword(name, parameter.default, hints[name])
            continue
        field_hints = get_type_hints(groups[name], include_extras=True)
        for each in fields(groups[name]):
            yield _keyword(each.name, _default(each), field_hints[each.name])


def _keyword(name: str, default: Any, annotation: Any) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=default, annotation=annotation)


def _default(each: Field[Any]) -> Any:
    return inspect.Parameter.empty if each.default is MISSING else each.default
