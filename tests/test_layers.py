"""Imports point one way, and files stay small. The tables are the map of the code."""

from __future__ import annotations

import ast
import functools
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parent.parent
OURS: Final = ("trellis_jobs", "jobs_admin", "pytest_trellis_jobs")

RULES_ONLY: Final = (
    "trellis_jobs.errors",
    "trellis_jobs.handler_errors",
    "trellis_jobs.infrastructure_errors",
    "trellis_jobs.key_errors",
    "trellis_jobs.model",
)
PURE: Final = (*RULES_ONLY, "trellis_jobs.wire", "trellis_jobs.contract")
DOORS: Final = (*PURE, "trellis_jobs.jetstream")
TOOLS: Final = ("trellis_jobs.surroundings", "trellis_jobs.telemetry")
BOTH_SIDES: Final = ("trellis_jobs.producer", "trellis_jobs.worker")

# A layer, and what it may import besides itself.
MAY_IMPORT: Final[dict[str, tuple[str, ...]]] = {
    "trellis_jobs.handler_errors": (),
    "trellis_jobs.infrastructure_errors": ("trellis_jobs.errors",),
    "trellis_jobs.errors": (),
    "trellis_jobs.key_errors": ("trellis_jobs.errors",),
    "trellis_jobs.model": ("trellis_jobs.errors",),
    "trellis_jobs.wire": RULES_ONLY,
    "trellis_jobs.contract": RULES_ONLY,
    "trellis_jobs.surroundings": RULES_ONLY,
    "trellis_jobs.telemetry": RULES_ONLY,
    "trellis_jobs.jetstream": PURE,
    "trellis_jobs.producer": (*DOORS, *TOOLS),
    "trellis_jobs.worker": (*DOORS, *TOOLS),
    "trellis_jobs.service": (*DOORS, *TOOLS, *BOTH_SIDES),
    "trellis_jobs.child_process": (),
    "trellis_jobs.embedded": ("trellis_jobs.errors", "trellis_jobs.child_process"),
    "trellis_jobs.demo": ("trellis_jobs",),
    "trellis_jobs.testing": ("trellis_jobs",),
    "pytest_trellis_jobs": ("trellis_jobs.testing",),
    "trellis_jobs.cli": OURS,
    "trellis_jobs": (*DOORS, *TOOLS, *BOTH_SIDES, "trellis_jobs.service"),
    "jobs_admin": (*DOORS, *TOOLS),
}

# A package that is not ours (or a module that means I/O), and the only layers that know it.
KNOWN_BY: Final[dict[str, tuple[str, ...]]] = {
    "jsonschema": ("trellis_jobs.contract",),
    "msgspec": ("trellis_jobs.model", "trellis_jobs.wire"),
    "nats": ("trellis_jobs.jetstream",),
    "nkeys": ("trellis_jobs.jetstream",),
    "opentelemetry": ("trellis_jobs.telemetry",),
    "orjson": (
        "trellis_jobs.wire",
        "trellis_jobs.contract",
        "trellis_jobs.jetstream",
        "trellis_jobs.cli",
        "jobs_admin",
    ),
    "pydantic": ("trellis_jobs.contract", "trellis_jobs.demo", "trellis_jobs.cli", "jobs_admin"),
    "referencing": ("trellis_jobs.contract",),
    "pydantic_core": ("trellis_jobs.contract",),
    "rich": ("trellis_jobs.cli",),
    "aiosqlite": ("jobs_admin",),
    "sqlite3": ("jobs_admin",),
    "pytest": ("pytest_trellis_jobs",),
    "typer": ("trellis_jobs.cli",),
    "typing_extensions": OURS,
    "uvloop": ("trellis_jobs.cli",),
}

# The pure layers are given time, chance and identity; they never take them.
IMPURE: Final = frozenset(
    {"asyncio", "logging", "os", "random", "secrets", "socket", "subprocess", "threading", "time"}
)
CLOCKS: Final = frozenset({"now", "utcnow", "today"})

LONGEST_FILE: Final = 400
LONGEST_FUNCTION: Final = 45


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


SOURCES: Final = {
    module_of(p): p for package in OURS for p in sorted((ROOT / package).rglob("*.py"))
}
every_source = pytest.mark.parametrize("module", SOURCES)
every_pure_source = pytest.mark.parametrize(
    "module", [module for module in SOURCES if module.startswith(PURE)]
)


@functools.cache
def tree_of(module: str) -> ast.Module:
    return ast.parse(SOURCES[module].read_text(encoding="utf-8"))


def imports_of(module: str) -> Iterator[str]:
    """Every module imported anywhere in the file, also those that only types need."""
    for node in ast.walk(tree_of(module)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            members = [f"{node.module}.{alias.name}" for alias in node.names]
            submodules = [member for member in members if member in SOURCES]
            yield from submodules or [node.module]


def is_within(module: str, layers: tuple[str, ...]) -> bool:
    return any(module == layer or module.startswith(f"{layer}.") for layer in layers)


def layer_of(module: str) -> str:
    return max((layer for layer in MAY_IMPORT if is_within(module, (layer,))), key=len)


@every_source
def test_imports_point_down(module: str) -> None:
    layer = layer_of(module)
    for imported in imports_of(module):
        if imported.split(".")[0] in OURS:
            allowed = layer_of(imported) == layer or is_within(imported, MAY_IMPORT[layer])
            assert allowed, f"{module} may not import {imported}"


@every_source
def test_every_package_that_is_not_ours_has_a_home(module: str) -> None:
    for imported in imports_of(module):
        package = imported.split(".")[0]
        if package in KNOWN_BY:
            assert is_within(module, KNOWN_BY[package]), f"{module} may not know {package}"
        elif package not in OURS:
            assert package in sys.stdlib_module_names, f"{package} has no line in KNOWN_BY"


@every_pure_source
def test_the_pure_layers_import_nothing_that_does_something(module: str) -> None:
    assert not IMPURE & set(imports_of(module))


@every_pure_source
def test_the_pure_layers_read_no_clock(module: str) -> None:
    called = [node.func for node in ast.walk(tree_of(module)) if isinstance(node, ast.Call)]
    assert not CLOCKS & {func.attr for func in called if isinstance(func, ast.Attribute)}


@every_source
def test_imports_are_absolute(module: str) -> None:
    nodes = [node for node in ast.walk(tree_of(module)) if isinstance(node, ast.ImportFrom)]
    assert all(node.level == 0 for node in nodes)


def test_no_module_imports_itself_in_a_roundabout_way() -> None:
    graph = {module: set(imports_of(module)) & SOURCES.keys() for module in SOURCES}
    TopologicalSorter(graph).prepare()


@every_source
def test_subjects_are_spelled_in_one_file_only(module: str) -> None:
    if module == "trellis_jobs.model.subjects":
        return
    for node in ast.walk(tree_of(module)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            is_subject = node.value.startswith(("trellis.jobs", "trellis.work"))
            is_format = "@" in node.value
            assert is_format or not is_subject, f"{module}:{node.lineno} spells {node.value!r}"


@every_source
def test_a_file_is_short(module: str) -> None:
    length = len(SOURCES[module].read_text(encoding="utf-8").splitlines())
    assert length <= LONGEST_FILE, f"{module} has {length} lines: it has become two nouns"


@every_source
def test_a_function_fits_on_one_screen(module: str) -> None:
    for node in ast.walk(tree_of(module)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            # The parameters of a command are its options: a declaration, however long.
            begin = node.body[0].lineno if layer_of(module) == "trellis_jobs.cli" else node.lineno
            length = (node.end_lineno or begin) - begin + 1
            assert length <= LONGEST_FUNCTION, f"{module}.{node.name} has {length} lines"


# Where text from jobs is made harmless before a terminal or a log file gets it.
PRINTERS: Final = frozenset(
    {
        "trellis_jobs.cli.app",
        "trellis_jobs.cli.exits",
        "trellis_jobs.cli.logs",
        "trellis_jobs.cli.showing.output",
        "trellis_jobs.cli.showing.text",
    }
)
PRINTING: Final = frozenset(
    {
        "print",
        "Console",
        "typer.echo",
        "typer.secho",
        "click.echo",
        "sys.stdout.write",
        "sys.stderr.write",
        "sys.stdout.buffer.write",
        "sys.stderr.buffer.write",
        "traceback.print_exc",
    }
)


def printing_in(module: str) -> Iterator[str]:
    calls = (node.func for node in ast.walk(tree_of(module)) if isinstance(node, ast.Call))
    yield from (name for name in map(ast.unparse, calls) if name in PRINTING)
    for imported in imports_of(module):
        if imported.startswith(("rich.text", "rich.markup")) or imported == "rich":
            yield f"import {imported}"


def test_only_the_output_layer_prints() -> None:
    """Others use `showing.output` and `showing.text.Text`: text from jobs may hold escapes."""
    found = {module: list(printing_in(module)) for module in SOURCES.keys() - PRINTERS}
    assert {module: names for module, names in found.items() if names} == {}
