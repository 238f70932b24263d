"""docs/reference/api.md: every public name with its signature and what it says of itself."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from datetime import timedelta
from enum import Enum
from typing import Any, Final, ForwardRef

from msgspec import NODEFAULT

import trellis_jobs
from trellis_jobs import KeyConcurrency, QueueDepth
from trellis_jobs.contract.declaration import JobOptions
from trellis_jobs.contract.option import REQUIRED, Option
from trellis_jobs.contract.queue_options import DEPTH_OPTIONS, KEY_OPTIONS, QUEUE_OPTIONS
from trellis_jobs.model.values import Value

_ADDRESS: Final = re.compile(r" at 0x[0-9a-f]+")
_OBJECT: Final = re.compile(r"<([\w.]+) object>")
_POSITIONAL: Final = inspect.Parameter.POSITIONAL_OR_KEYWORD
_PAGE: Final = """\
# The Python API

<!-- Generated from trellis_jobs by tools/reference/api_page.py: make docs -->

On this page you find every public name of `trellis_jobs`. A guide to using them is
[writing jobs](../guides/writing-jobs.md). The client of the admin runtime is
`jobs_admin.api.client`, see [running the admin](../guides/running-the-admin.md#from-python).
Helpers for tests are in `trellis_jobs.testing`, see [testing](../guides/testing.md).

## Declaring

`job(payload, result=None, **options)` is an attribute of a `Jobs` class; the queue's name is the
attribute's, with dashes. Durations are seconds or `timedelta`.

| Option | Type | Default | Field of the manifest | |
|---|---|---|---|---|
{options}

`KeyConcurrency(key, …)`, see [keyed limits](../guides/keyed-limits.md):

| Option | Type | Default | Field of the manifest | |
|---|---|---|---|---|
{key_options}

`QueueDepth(…)`:

| Option | Type | Default | Field of the manifest | |
|---|---|---|---|---|
{depth_options}

## Classes

{classes}

## Functions

{functions}

## Errors

```text
{errors}
```
"""


def page() -> str:
    return _PAGE.format(
        options=_options(JobOptions, QUEUE_OPTIONS),
        key_options=_options(KeyConcurrency, KEY_OPTIONS),
        depth_options=_options(QueueDepth, DEPTH_OPTIONS),
        classes="\n\n".join(_class(each) for each in _classes()),
        functions="\n\n".join(_function(each) for each in _functions()),
        errors=(trellis_jobs.errors.__doc__ or "").split("\n\n", 1)[1].rstrip(),
    )


def _classes() -> Iterator[type]:
    for name in trellis_jobs.__all__:
        found = getattr(trellis_jobs, name)
        is_class = inspect.isclass(found) and found is not trellis_jobs.job
        if is_class and not issubclass(found, BaseException):
            yield found


def _functions() -> Iterator[Any]:
    public = [getattr(trellis_jobs, name) for name in trellis_jobs.__all__]
    return (each for each in public if inspect.isfunction(each))


def _function(found: Any) -> str:
    called = f"```python\n{found.__name__}{_signature(found)}\n```"
    return f"### {found.__name__}\n\n{inspect.cleandoc(found.__doc__ or '')}\n\n{called}"


def _class(found: type) -> str:
    parts = [f"### {found.__name__}"]
    said = _said(found)
    if said:
        parts.append(said)
    if issubclass(found, Enum):
        parts.append(", ".join(f"`{member.value}`" for member in found))
        return "\n\n".join(parts)
    members = [line for name in _public(found) for line in _member(found, name)]
    signature = _signature(found)
    block = "\n".join([f"{found.__name__}{signature}", *members])
    parts.append(f"```python\n{block}\n```")
    return "\n\n".join(parts)


def _public(found: type) -> list[str]:
    own = [name for base in reversed(found.__mro__[:-1]) for name in vars(base)]
    return [name for name in dict.fromkeys(own) if not name.startswith("_")]


def _member(found: type, name: str) -> Iterator[str]:
    value = inspect.getattr_static(found, name)
    if isinstance(value, property):
        yield f"    .{name}"
    elif isinstance(value, classmethod | staticmethod) or inspect.isfunction(value):
        function: Any = getattr(found, name)
        is_async = inspect.iscoroutinefunction(inspect.unwrap(function))
        yield f"    {'await ' if is_async else ''}.{name}{_signature(function)}"


def _signature(found: Any) -> str:
    try:
        signature = _of_value(found) if _is_value(found) else inspect.signature(found)
    except (TypeError, ValueError):
        return ""
    kept = [each for name, each in signature.parameters.items() if name != "self"]
    text = str(signature.replace(parameters=kept)).replace("'", "")
    return _OBJECT.sub("…", _ADDRESS.sub("", text))


def _is_value(found: Any) -> bool:
    return inspect.isclass(found) and issubclass(found, Value)


def _of_value(found: type[Value]) -> inspect.Signature:
    """msgspec would look the types up, and some of them are imported for type checkers only."""
    names, given = found.__struct_fields__, found.__struct_defaults__
    pairs = zip(names[len(names) - len(given) :], given, strict=True)
    # A required option may follow one that has a default, if it is given by name.
    defaults = {name: value for name, value in pairs if value is not NODEFAULT}
    types = {
        name: kind
        for base in reversed(found.__mro__)
        for name, kind in inspect.get_annotations(base).items()
    }
    parameters = (
        inspect.Parameter(
            name,
            _POSITIONAL if name in found.__match_args__ else inspect.Parameter.KEYWORD_ONLY,
            default=defaults.get(name, inspect.Parameter.empty),
            annotation=types[name],
        )
        for name in names
    )
    return inspect.Signature(list(parameters), return_annotation=None)


def _said(found: type) -> str:
    said = vars(found).get("__doc__") or ""
    return "" if said.startswith(f"{found.__name__}(") else inspect.cleandoc(said)


def _options(declared: type, options: tuple[Option, ...]) -> str:
    """The rows of a table: in the order and with the types of the class that declares them."""
    table = {option.name: option for option in options}
    return "\n".join(
        _option(table[name], annotation) for name, annotation in declared.__annotations__.items()
    )


def _option(option: Option, annotation: str | ForwardRef) -> str:
    """The type is as the class has it: a table takes no bare bars."""
    written = annotation if isinstance(annotation, str) else annotation.__forward_arg__
    kind = written.replace("|", "\\|")
    default = "required" if option.default is REQUIRED else f"`{_default(option.default)}`"
    field = f"`{option.field}`" if option.field else ""
    return f"| `{option.name}` | `{kind}` | {default} | {field} | {option.about} |"


def _default(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_default, value))}]"
    if isinstance(value, timedelta):
        return f"{value.total_seconds():g}"
    return repr(str(value)) if isinstance(value, str) else repr(value)
