"""A log line is readable by itself: its message has the values, its `extra` is for machines.

Reproduction: "disconnected, reconnecting" did not say from where or why without its fields.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
SOURCES: Final = [
    path for package in ("trellis_jobs", "jobs_admin") for path in (ROOT / package).rglob("*.py")
]
LEVELS: Final = {"debug", "info", "warning", "error", "exception", "log"}
# What all of a process is about: the fields describe it.
WITH_FIELDS_ALONE: Final = {"admin runtime started", "admin runtime is stopping"}


def calls_in(path: Path) -> Iterator[ast.Call]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == "log"
            and node.func.attr in LEVELS
        ):
            yield node


def message_of(call: ast.Call) -> str:
    texts = [arg.value for arg in call.args if isinstance(arg, ast.Constant)]
    return next((text for text in texts if isinstance(text, str)), "%s")


def test_a_line_with_fields_has_values_in_its_message() -> None:
    found = {(path, call) for path in SOURCES for call in calls_in(path)}
    assert len(found) > 60
    offenders = [
        f"{path.relative_to(ROOT)}:{call.lineno}: {message_of(call)}"
        for path, call in found
        if any(keyword.arg == "extra" for keyword in call.keywords)
        and "%" not in message_of(call)
        and message_of(call) not in WITH_FIELDS_ALONE
    ]
    assert sorted(offenders) == []
