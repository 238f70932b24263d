"""Whatever a manifest says, the module that is generated from it only declares types."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any, Final

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobs_admin.cli.contract.generate import generated
from tests.cli.forbidden import HOSTILE, forbidden_in
from tests.cli.shell import shell
from tests.contract.order_jobs import OrderJobs
from trellis_jobs.contract.codegen.inert import check_inert
from trellis_jobs.contract.manifest import to_manifest
from trellis_jobs.errors import DeclarationError

RUN: Final = "__import__('os').abort()"
NASTY: Final = (
    RUN,
    f'"""\n{RUN}\n"""',
    f'"); {RUN}; ("',
    f"'); {RUN}; ('",
    f"\\\n{RUN}",
    f"\\'); {RUN} #",
    '\\"',
    f"x: int = {RUN}",
    "{" + RUN + "}",
    f"A({RUN})",
    "class",
    "None",
    "__init__",
    "__class__",
    "model_config",
    "job",
    "dt",
    "int",
    "ünïcode",
    "",
    "../../etc/passwd",
    HOSTILE,
    "\u2028" + RUN,
    "x" * 300,
)
nasty = st.one_of(st.sampled_from(NASTY), st.text())
plain = st.one_of(nasty, st.integers(), st.booleans(), st.none(), st.lists(nasty, max_size=2))
NODES: Final = frozenset(
    [
        "Module",
        "Import",
        "ImportFrom",
        "alias",
        "ClassDef",
        "Pass",
        "Expr",
        "Assign",
        "AnnAssign",
        "Call",
        "keyword",
        "Name",
        "Attribute",
        "Subscript",
        "Constant",
        "List",
        "Dict",
        "Set",
        "Tuple",
        "BinOp",
        "BitOr",
        "UnaryOp",
        "USub",
        "Load",
        "Store",
    ]
)
CALLED: Final = frozenset(
    ["job", "Field", "ConfigDict", "KeyConcurrency", "QueueDepth", "Secret", "set", "''.join"]
)


def leaf() -> st.SearchStrategy[Any]:
    words = {
        "title": nasty,
        "description": nasty,
        "default": plain,
        "examples": st.lists(plain, max_size=2),
        "pattern": nasty,
        "format": st.one_of(nasty, st.sampled_from(["uuid", "date", "password", "binary"])),
        "enum": st.lists(plain, max_size=3),
        "const": plain,
        "minimum": plain,
        "writeOnly": st.booleans(),
        "$ref": nasty.map(lambda name: f"#/$defs/{name}"),
    }
    kinds = st.sampled_from(["string", "integer", "boolean", "null", RUN])
    return st.fixed_dictionaries({"type": kinds}, optional=words)


def an_object(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(
        {"type": st.just("object"), "properties": st.dictionaries(nasty, inner, max_size=3)},
        optional={
            "title": nasty,
            "description": nasty,
            "required": st.lists(nasty, max_size=2),
            "additionalProperties": st.booleans(),
            "$defs": st.dictionaries(nasty, inner, max_size=2),
        },
    )


schemas = an_object(st.recursive(leaf(), an_object, max_leaves=4))


@st.composite
def manifests(draw: st.DrawFn) -> dict[str, Any]:
    name = draw(st.one_of(st.just("orders"), nasty))
    entry = {"payload": {"schema": draw(schemas)}, "docs": draw(plain)}
    if draw(st.booleans()):
        entry["keyConcurrency"] = {"key": [draw(nasty)]}
    return {"service": name, "jobs": {draw(st.one_of(st.just("greet"), nasty)): entry}}


@given(manifests())
@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_a_hostile_manifest_is_refused_or_becomes_declarations(manifest: dict[str, Any]) -> None:
    try:
        source = generated(manifest)
    except DeclarationError:
        return
    assert_inert(source)


@pytest.mark.parametrize("words", NASTY)
def test_hostile_words_stay_words(words: str) -> None:
    """Where a manifest may say what it likes, the module is made, and says the same."""
    field = {"type": "string", "description": words, "default": words, "examples": [words]}
    schema = {"title": "Greeting", "description": words, "type": "object"}
    payload = {"schema": {**schema, "properties": {"text": field}}}
    source = generated(
        {"service": "orders", "jobs": {"greet": {"payload": payload, "docs": words}}}
    )
    assert_inert(source)
    assert forbidden_in(source) == set()


def assert_inert(source: str) -> None:
    nodes = list(ast.walk(ast.parse(source)))
    assert {type(node).__name__ for node in nodes} <= NODES
    assert {ast.unparse(node.func) for node in nodes if isinstance(node, ast.Call)} <= CALLED
    assert {node.id for node in nodes if isinstance(node, ast.Name)} & {"__import__", "os"} == set()


@pytest.mark.parametrize(
    "line",
    [
        RUN,
        "import os",
        "from os import abort",
        "x = [y for y in ()]",
        "def f(): ...",
        "x = ().__class__",
        "x = eval('1')",
        "x = (lambda: 1)()",
        "x = f'{1}'",
        "x = 'a'.join([]).format(1)",
    ],
)
def test_a_module_that_does_more_than_declare_is_refused(line: str) -> None:
    check_inert("x = 1\n")
    with pytest.raises(DeclarationError, match="line 2 of the generated module does more"):
        check_inert(f"x = 1\n{line}\n")


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"[" * 5_000 + b"]" * 5_000, "depth limit exceeded"),
        (b"{", "unexpected end of data"),
        (b"[]", "manifest"),
        (b"\xff", "UTF-8"),
    ],
)
def test_what_is_no_manifest_is_refused_by_the_command(
    tmp_path: Path, content: bytes, complaint: str
) -> None:
    file = tmp_path / "manifest.json"
    file.write_bytes(content)
    ended = shell("contract", "generate", str(file))
    assert ended.code == 1
    assert ended.err.startswith(f"error: {file}: ")
    assert complaint in ended.err


def test_a_schema_nested_too_deeply_is_refused_by_the_command(tmp_path: Path) -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(200):
        schema = {"type": "array", "items": schema}
    manifest = to_manifest(OrderJobs.contract)
    manifest["jobs"]["greet"]["payload"]["schema"] = schema
    file = tmp_path / "manifest.json"
    file.write_bytes(orjson.dumps(manifest))
    ended = shell("contract", "generate", str(file))
    assert (ended.code, ended.err) == (1, f"error: {file}: it is nested more than 60 levels deep\n")
