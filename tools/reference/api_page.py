"""docs/reference/api.md: every public name with its signature and what it says of itself."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from enum import Enum
from typing import Any, Final, ForwardRef

import trellis_jobs
from trellis_jobs.model.values import Value
from trellis_jobs.service.jobs import JobOptions

_ADDRESS: Final = re.compile(r" at 0x[0-9a-f]+")
_OBJECT: Final = re.compile(r"<([\w.]+) object>")
_POSITIONAL: Final = inspect.Parameter.POSITIONAL_OR_KEYWORD
_PAGE: Final = """\
# The Python API

<!-- Generated from trellis_jobs by tools/reference/api_page.py: make docs -->

Everything that `from trellis_jobs import …` offers. How it is used:
[writing jobs](../guides/writing-jobs.md). The client of the admin runtime is
`jobs_admin.api.client`, see [running the admin](../guides/running-the-admin.md#from-python).
Helpers for tests are in `trellis_jobs.testing`, see [testing](../guides/testing.md).

## Declaring

`job(payload, result=None, **options)` is an attribute of a `Jobs` class; the queue's name is the
attribute's, with dashes. Durations are seconds or `timedelta`.

| Option | Type | |
|---|---|---|
{options}

## Classes

{classes}

## Functions

{functions}

## Errors

```text
{errors}
```
"""
_MEANING: Final = {
    "name": "the queue's name, if not the attribute's",
    "concurrency": "jobs at once in each worker process; default 1",
    "max_deliver": "tries before the job is dead; default 5",
    "backoff": "seconds before each next try, the last repeats; jittered",
    "ack_wait": "how long a silent worker keeps its job; default 30",
    "delivery_limit": "deliveries before the server gives up; default none",
    "timeout": "stop a try after so long; it counts as retryable; default none",
    "deadline": "the job is worth nothing so long after its creation; default none",
    "progress": "whether progress is written to the log; default yes",
    "logs": "whether log lines are written to the log; default yes",
    "dlq": "whether a job out of tries is kept as dead, else it is failed; default yes",
    "permanent": "exception types that end the job at once",
    "shared": "foreign runtimes write this queue's events too: fold whole histories",
    "key": "limit concurrency per key; default none",
    "queue": "what happens to one more job of a full key",
    "version": "of the payload, counted from 1; see [contracts](../guides/contracts.md)",
    "upgrades": "by version: from the JSON of an older payload to that of the next version",
    "docs": "for readers of the manifest",
}


def page() -> str:
    return _PAGE.format(
        options="\n".join(
            f"| `{option}` | `{_type(annotation)}` | {_MEANING[option]} |"
            for option, annotation in JobOptions.__annotations__.items()
        ),
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
    defaults = dict(zip(names[len(names) - len(given) :], given, strict=True))
    parameters = (
        inspect.Parameter(
            name,
            _POSITIONAL if name in found.__match_args__ else inspect.Parameter.KEYWORD_ONLY,
            default=defaults.get(name, inspect.Parameter.empty),
            annotation=inspect.get_annotations(found)[name],
        )
        for name in names
    )
    return inspect.Signature(list(parameters), return_annotation=None)


def _said(found: type) -> str:
    said = vars(found).get("__doc__") or ""
    return "" if said.startswith(f"{found.__name__}(") else inspect.cleandoc(said)


def _type(annotation: ForwardRef) -> str:
    """As it is written in the class: a table takes no bare bars."""
    return annotation.__forward_arg__.replace("|", "\\|")
