"""Imports point one way, and files stay small. The tables are the map of the code."""

from __future__ import annotations

import ast
import functools
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
OURS: Final = ("trellis_jobs", "jobs_admin", "pytest_trellis_jobs")

RULES: Final = ("trellis_jobs.errors", "trellis_jobs.model")
PURE: Final = (*RULES, "trellis_jobs.wire", "trellis_jobs.contract")
CLIENT: Final = (*PURE, "trellis_jobs.jetstream.client")
STREAMS: Final = (*PURE, "trellis_jobs.jetstream")
TOOLS: Final = ("trellis_jobs.environment", "trellis_jobs.telemetry")
BOTH_SIDES: Final = ("trellis_jobs.producer", "trellis_jobs.worker")
ADMIN: Final = (*STREAMS, *TOOLS, "jobs_admin.api")

# A layer, and what it may import besides itself. The longest name that fits a module is its layer.
MAY_IMPORT: Final[dict[str, tuple[str, ...]]] = {
    "trellis_jobs.errors": (),
    "trellis_jobs.model": (
        "trellis_jobs.errors",
        "trellis_jobs.model.keys",
        "trellis_jobs.model.schedules",
    ),
    "trellis_jobs.model.keys": ("trellis_jobs.errors", "trellis_jobs.model"),
    "trellis_jobs.model.schedules": ("trellis_jobs.errors", "trellis_jobs.model"),
    "trellis_jobs.wire": RULES,
    "trellis_jobs.contract": RULES,
    "trellis_jobs.contract.codegen": (*RULES, "trellis_jobs.contract"),
    "trellis_jobs.contract.permissions": (*RULES, "trellis_jobs.contract"),
    "trellis_jobs.environment": RULES,
    "trellis_jobs.telemetry": RULES,
    "trellis_jobs.jetstream": (),
    "trellis_jobs.jetstream.client": PURE,
    "trellis_jobs.jetstream.control": CLIENT,
    "trellis_jobs.jetstream.log": CLIENT,
    "trellis_jobs.jetstream.keys": (*CLIENT, "trellis_jobs.jetstream.log"),
    "trellis_jobs.jetstream.work": (
        *CLIENT,
        "trellis_jobs.jetstream.keys",
        "trellis_jobs.jetstream.log",
    ),
    "trellis_jobs.jetstream.alarms": (*CLIENT, "trellis_jobs.jetstream.work"),
    "trellis_jobs.jetstream.schedules": (
        *CLIENT,
        "trellis_jobs.jetstream.alarms",
        "trellis_jobs.jetstream.control",
    ),
    "trellis_jobs.jetstream.setup": (*CLIENT, "trellis_jobs.jetstream.work"),
    "trellis_jobs.producer": (*STREAMS, *TOOLS),
    "trellis_jobs.worker": (*STREAMS, *TOOLS),
    "trellis_jobs.scheduler": (*STREAMS, *TOOLS, *BOTH_SIDES),
    "trellis_jobs.service": (*STREAMS, *TOOLS, *BOTH_SIDES, "trellis_jobs.scheduler"),
    "trellis_jobs.child_process": (),
    "trellis_jobs.embedded": ("trellis_jobs.errors", "trellis_jobs.child_process"),
    "trellis_jobs.demo": ("trellis_jobs",),
    "trellis_jobs.testing": ("trellis_jobs",),
    "pytest_trellis_jobs": ("trellis_jobs.testing",),
    "trellis_jobs": (*STREAMS, *TOOLS, *BOTH_SIDES, "trellis_jobs.service"),
    "jobs_admin": (),
    "jobs_admin.api": (*STREAMS, *TOOLS),
    "jobs_admin.private_files": (),
    "jobs_admin.hidden_values": ADMIN,
    "jobs_admin.priority": (),
    "jobs_admin.remembered": (),
    "jobs_admin.gather_limited": (),
    "jobs_admin.file_lock": (*ADMIN, "jobs_admin.private_files"),
    "jobs_admin.retention_policy": ADMIN,
    "jobs_admin.http": ADMIN,
    "jobs_admin.loops": ADMIN,
    "jobs_admin.config": (*ADMIN, "jobs_admin.http", "jobs_admin.retention_policy"),
    "jobs_admin.actions": ADMIN,
    "jobs_admin.explain": ADMIN,
    "jobs_admin.projection": (
        *ADMIN,
        "jobs_admin.file_lock",
        "jobs_admin.priority",
        "jobs_admin.private_files",
        "jobs_admin.retention_policy",
    ),
    "jobs_admin.reads": (
        *ADMIN,
        "jobs_admin.actions",
        "jobs_admin.explain",
        "jobs_admin.gather_limited",
        "jobs_admin.projection",
    ),
    "jobs_admin.queues": ADMIN,
    "jobs_admin.creation": (
        *ADMIN,
        "trellis_jobs.producer",
        "jobs_admin.hidden_values",
        "jobs_admin.queues",
    ),
    "jobs_admin.bundle": (*ADMIN, "jobs_admin.explain"),
    "jobs_admin.doctor": (*ADMIN, "jobs_admin.workers"),
    "jobs_admin.health": (*ADMIN, "jobs_admin.config", "jobs_admin.loops", "jobs_admin.reads"),
    "jobs_admin.operations": (*ADMIN, "jobs_admin.actions", "jobs_admin.reads"),
    "jobs_admin.audit": ADMIN,
    "jobs_admin.workers": ADMIN,
    "jobs_admin.schedules": (*ADMIN, "jobs_admin.hidden_values"),
    "jobs_admin.maintenance": (
        *ADMIN,
        "jobs_admin.gather_limited",
        "jobs_admin.schedules",
        "jobs_admin.workers",
        "jobs_admin.actions",
        "jobs_admin.config",
        "jobs_admin.gather_limited",
        "jobs_admin.loops",
        "jobs_admin.private_files",
        "jobs_admin.projection",
        "jobs_admin.reads",
        "jobs_admin.retention_policy",
    ),
    "jobs_admin.rpc": (
        *ADMIN,
        "jobs_admin.gather_limited",
        "jobs_admin.audit",
        "jobs_admin.schedules",
        "jobs_admin.workers",
        "jobs_admin.actions",
        "jobs_admin.config",
        "jobs_admin.creation",
        "jobs_admin.doctor",
        "jobs_admin.explain",
        "jobs_admin.health",
        "jobs_admin.operations",
        "jobs_admin.projection",
        "jobs_admin.queues",
        "jobs_admin.reads",
        "jobs_admin.remembered",
    ),
    "jobs_admin.parts": (
        *ADMIN,
        "jobs_admin.audit",
        "jobs_admin.actions",
        "jobs_admin.config",
        "jobs_admin.creation",
        "jobs_admin.doctor",
        "jobs_admin.file_lock",
        "jobs_admin.health",
        "jobs_admin.loops",
        "jobs_admin.operations",
        "jobs_admin.projection",
        "jobs_admin.reads",
        "jobs_admin.schedules",
        "jobs_admin.workers",
    ),
    "jobs_admin.routing": (
        *ADMIN,
        "jobs_admin.audit",
        "jobs_admin.parts",
        "jobs_admin.schedules",
        "jobs_admin.workers",
        "jobs_admin.actions",
        "jobs_admin.config",
        "jobs_admin.doctor",
        "jobs_admin.health",
        "jobs_admin.operations",
        "jobs_admin.projection",
        "jobs_admin.queues",
        "jobs_admin.reads",
        "jobs_admin.rpc",
    ),
    "jobs_admin.daemon": (
        *ADMIN,
        "jobs_admin.audit",
        "jobs_admin.parts",
        "jobs_admin.routing",
        "jobs_admin.schedules",
        "jobs_admin.workers",
        "jobs_admin.actions",
        "jobs_admin.config",
        "jobs_admin.doctor",
        "jobs_admin.file_lock",
        "jobs_admin.health",
        "jobs_admin.http",
        "jobs_admin.loops",
        "jobs_admin.maintenance",
        "jobs_admin.operations",
        "jobs_admin.projection",
        "jobs_admin.queues",
        "jobs_admin.reads",
        "jobs_admin.rpc",
    ),
    "jobs_admin.console": (*ADMIN, "jobs_admin.bundle", "jobs_admin.explain", "jobs_admin.http"),
    "jobs_admin.cli": OURS,
}

# A package that is not ours (or a module that means I/O), and the only layers that know it.
KNOWN_BY: Final[dict[str, tuple[str, ...]]] = {
    # Reads cron expressions; loaded only when there is one.
    "cronsim": ("trellis_jobs.model.schedules",),
    "jsonschema": ("trellis_jobs.contract",),
    "msgspec": ("trellis_jobs.model", "trellis_jobs.wire"),
    "jinja2": ("jobs_admin.console",),
    "markupsafe": ("jobs_admin.console",),
    "nats": ("trellis_jobs.jetstream",),
    "nkeys": ("trellis_jobs.jetstream.client",),
    "opentelemetry": ("trellis_jobs.telemetry",),
    "orjson": (
        "trellis_jobs.wire",
        "trellis_jobs.contract",
        "trellis_jobs.jetstream",
        "jobs_admin.cli",
        "jobs_admin",
    ),
    "pydantic": (
        "trellis_jobs.contract",
        "trellis_jobs.demo",
        "jobs_admin.cli",
        "jobs_admin",
    ),
    "referencing": ("trellis_jobs.contract",),
    "pydantic_core": ("trellis_jobs.contract",),
    "rich": ("jobs_admin.cli",),
    "aiosqlite": ("jobs_admin",),
    "sqlite3": ("jobs_admin",),
    "pytest": ("pytest_trellis_jobs",),
    "starlette": ("jobs_admin.console",),
    "typer": ("jobs_admin.cli",),
    "typing_extensions": OURS,
    "uvicorn": ("jobs_admin.console",),
    "uvloop": ("jobs_admin.cli",),
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
PURE_SOURCES: Final = [module for module in SOURCES if module.startswith(PURE)]


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


def packages_of(module: str) -> Iterator[str]:
    """The packages whose `__init__` is run before a module is loaded."""
    parts = module.split(".")
    yield from (".".join(parts[:length]) for length in range(1, len(parts)))


def loaded_by(module: str) -> set[str]:
    """What an import of a module loads besides it: what it imports, and the packages of that."""
    imported = set(imports_of(module)) & SOURCES.keys()
    packages = {package for one in imported for package in packages_of(one)}
    return (imported | packages) - {module, *packages_of(module)}


def test_imports_point_down() -> None:
    offenders = [
        f"{module} imports {imported}"
        for module in SOURCES
        for imported in imports_of(module)
        if imported.split(".")[0] in OURS
        and layer_of(imported) != layer_of(module)
        and not is_within(imported, MAY_IMPORT[layer_of(module)])
    ]
    assert offenders == []


def test_every_folder_has_a_line_in_the_table() -> None:
    folders = {
        module
        for module, path in SOURCES.items()
        if path.name == "__init__.py" and module.count(".") == 1
    }
    assert folders - MAY_IMPORT.keys() == set()


def test_every_package_that_is_not_ours_has_a_home() -> None:
    offenders = [
        f"{module} imports {package}"
        for module in SOURCES
        for package in {imported.split(".")[0] for imported in imports_of(module)}
        if (package not in OURS and package not in sys.stdlib_module_names | KNOWN_BY.keys())
        or (package in KNOWN_BY and not is_within(module, KNOWN_BY[package]))
    ]
    assert offenders == []


def test_the_pure_layers_import_nothing_that_does_something() -> None:
    found = {module: IMPURE & set(imports_of(module)) for module in PURE_SOURCES}
    assert {module: imported for module, imported in found.items() if imported} == {}


def test_the_pure_layers_read_no_clock() -> None:
    offenders = [
        f"{module}:{node.lineno}"
        for module in PURE_SOURCES
        for node in ast.walk(tree_of(module))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in CLOCKS
    ]
    assert offenders == []


def test_imports_are_absolute() -> None:
    offenders = [
        f"{module}:{node.lineno}"
        for module in SOURCES
        for node in ast.walk(tree_of(module))
        if isinstance(node, ast.ImportFrom) and node.level
    ]
    assert offenders == []


def test_no_module_imports_itself_in_a_roundabout_way() -> None:
    """Also not through the `__init__` of a package that is loaded on the way."""
    TopologicalSorter({module: loaded_by(module) for module in SOURCES}).prepare()


def test_subjects_are_spelled_in_one_file_only() -> None:
    offenders = [
        f"{module}:{node.lineno} spells {node.value!r}"
        for module in SOURCES.keys() - {"trellis_jobs.model.subjects"}
        for node in ast.walk(tree_of(module))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and node.value.startswith(("trellis.jobs", "trellis.work"))
        and "@" not in node.value
    ]
    assert offenders == []


def test_a_file_is_short() -> None:
    lengths = {
        module: len(path.read_text(encoding="utf-8").splitlines())
        for module, path in SOURCES.items()
    }
    too_long = {module: length for module, length in lengths.items() if length > LONGEST_FILE}
    assert too_long == {}, "these have become two nouns"


def length_of(function: ast.FunctionDef | ast.AsyncFunctionDef, layer: str) -> int:
    """The parameters of a command are its options: a declaration, however long."""
    begin = function.body[0].lineno if layer == "jobs_admin.cli" else function.lineno
    return (function.end_lineno or begin) - begin + 1


def test_a_function_fits_on_one_screen() -> None:
    too_long = [
        f"{module}.{node.name} has {length_of(node, layer_of(module))} lines"
        for module in SOURCES
        for node in ast.walk(tree_of(module))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and length_of(node, layer_of(module)) > LONGEST_FUNCTION
    ]
    assert too_long == []


# Where text from jobs is made harmless before a terminal or a log file gets it.
PRINTERS: Final = frozenset(
    {
        "jobs_admin.cli.app",
        "jobs_admin.cli.exit_codes",
        "jobs_admin.cli.logs",
        "jobs_admin.cli.render.output",
        "jobs_admin.cli.render.text",
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
