"""Crash points, read from the code: each `await`, and each effect that needs none.

A point is named by its module, its function and what is called there, so its name stays when lines
move. What `async with` enters is ours, and has its own points, or asyncio's, and does nothing.
"""

from __future__ import annotations

import ast
import dis
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from inspect import CO_OPTIMIZED
from itertools import pairwise
from pathlib import Path
from types import CodeType
from typing import Final

# Calls that change something outside of the process at once.
EFFECTS: Final = frozenset({"publish_now", "unlink", "fsync", "touch", "write", "flush"})
# Path.replace(target); a string's has two arguments.
_RENAMES: Final = "replace"


class Side(StrEnum):
    """Just before what is called there begins, or just after it has ended well."""

    BEFORE = "before"
    AFTER = "after"


# Which code runs: its file, its first line and its name.
CodeKey = tuple[str, int, str]
# Where a node ends: line and column, which tell apart all awaits, and all calls, of a file.
_End = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Site:
    """One place in the bytecode that belongs to a point; a `finally` is compiled several times."""

    point: str
    code: CodeKey
    before: int
    after: int


def sites_in(module: str, path: Path) -> list[Site]:
    source = path.read_text(encoding="utf-8")
    awaited, effects = _nodes(ast.parse(source))
    found: list[tuple[str, _End, Site]] = []
    for code in _codes_in(compile(source, str(path), "exec", dont_inherit=True)):
        if not code.co_flags & CO_OPTIMIZED:
            continue  # the body of a module or of a class
        for ends, offsets in ((awaited, _awaits(code)), (effects, _calls(code))):
            for end, before, after in offsets:
                if end in ends:
                    name = f"{module}:{_function(code)}:{ends[end]}"
                    found.append((name, end, Site(name, _key(code), before, after)))
    return list(_numbered(found))


def names(sites: Iterable[Site]) -> set[str]:
    return {site.point for site in sites}


def _nodes(tree: ast.Module) -> tuple[dict[_End, str], dict[_End, str]]:
    """What is called, by where that ends: in an `await`, and as an effect by itself."""
    awaited: dict[_End, str] = {}
    effects: dict[_End, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Await):
            awaited[_end(node)] = _words(node.value)
        elif isinstance(node, ast.Call) and _is_effect(node):
            effects[_end(node)] = _words(node)
    return awaited, {end: words for end, words in effects.items() if end not in awaited}


def _is_effect(call: ast.Call) -> bool:
    if not isinstance(call.func, ast.Attribute):
        return False
    is_rename = call.func.attr == _RENAMES and len(call.args) == 1 and not call.keywords
    return is_rename or call.func.attr in EFFECTS


def _words(node: ast.expr) -> str:
    return ast.unparse(node.func if isinstance(node, ast.Call) else node)


def _end(node: ast.expr) -> _End:
    return node.end_lineno or 0, node.end_col_offset or 0


def _codes_in(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes_in(constant)


def _key(code: CodeType) -> CodeKey:
    return code.co_filename, code.co_firstlineno, code.co_name


def _function(code: CodeType) -> str:
    return ".".join(part for part in code.co_qualname.split(".") if not part.startswith("<"))


def _awaits(code: CodeType) -> Iterator[tuple[_End, int, int]]:
    """Where an await ends in the source, where it begins, and where it goes on."""
    begun: tuple[_End, int] | None = None
    for step in dis.get_instructions(code):
        if step.opname == "GET_AWAITABLE" and step.arg == 0:
            begun = _end_of(step), step.offset
        elif step.opname == "SEND" and begun is not None:
            yield (*begun, int(step.argval))
            begun = None


def _calls(code: CodeType) -> Iterator[tuple[_End, int, int]]:
    steps = list(dis.get_instructions(code))
    for step, following in pairwise(steps):
        if step.opname == "CALL":
            yield _end_of(step), step.offset, following.offset


def _end_of(step: dis.Instruction) -> _End:
    at = step.positions
    assert at is not None
    return at.end_lineno or 0, at.end_col_offset or 0


def _numbered(found: list[tuple[str, _End, Site]]) -> Iterator[Site]:
    """The second call of the same in a function is `#2`, by its place in the source."""
    places: defaultdict[str, set[_End]] = defaultdict(set)
    for name, end, _ in found:
        places[name].add(end)
    numbers = {
        name: Counter({end: n for n, end in enumerate(sorted(ends), 1)})
        for name, ends in places.items()
    }
    for name, end, site in found:
        number = numbers[name][end]
        point = name if number == 1 else f"{name}#{number}"
        yield Site(point, site.code, site.before, site.after)
