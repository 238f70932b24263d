"""A module generated from a manifest: typed, tidy, and saying the same as the manifest."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from jobs_admin.cli.contract.generate import check_stable, manifest_of
from tests.contract.order_jobs import OrderJobs
from trellis_jobs.contract.codegen.module import generate_module
from trellis_jobs.contract.manifest import to_manifest
from trellis_jobs.errors import DeclarationError

ROOT: Final = Path(__file__).parents[2]
MANIFEST: Final = to_manifest(OrderJobs.contract)


def test_it_says_of_itself_what_the_manifest_said() -> None:
    source = generate_module(MANIFEST)
    assert manifest_of(source) == MANIFEST
    assert generate_module(manifest_of(source)) == source


USAGE: Final = """
from __future__ import annotations

from generated import Address, OrdersJobs
from trellis_jobs import ActiveJob, JobRef, Service

service = Service(OrdersJobs)


@service.jobs.queue_list.handle
async def list_all(job: ActiveJob[list[Address]]) -> list[str]:
    return [address.street for address in job.payload]


async def use() -> list[str]:
    ref: JobRef[list[str]] = await service.jobs.queue_list.create([Address(street="a")])
    return await ref.wait()
"""
MISUSE: Final = """
from __future__ import annotations

from generated import OrdersJobs
from trellis_jobs import Service

service = Service(OrdersJobs)


async def misuse() -> None:
    await service.jobs.greet.create(7)
"""


def test_it_is_typed_tidy_and_usable(tmp_path: Path) -> None:
    (tmp_path / "generated.py").write_text(generate_module(MANIFEST), encoding="utf-8")
    (tmp_path / "usage.py").write_text(USAGE, encoding="utf-8")
    (tmp_path / "misuse.py").write_text(MISUSE, encoding="utf-8")
    config = ("--config", str(ROOT / "pyproject.toml"))
    assert tool(tmp_path, "ruff", "check", *config, "generated.py") == "All checks passed!"
    assert tool(tmp_path, "ruff", "format", "--check", *config, "generated.py").endswith(
        "formatted"
    )
    assert tool(tmp_path, "mypy", "--strict", "generated.py", "usage.py").startswith("Success")
    assert "incompatible type" in tool(tmp_path, "mypy", "--strict", "misuse.py")


def tool(folder: Path, *arguments: str) -> str:
    ended = subprocess.run(
        (sys.executable, "-m", *arguments), cwd=folder, capture_output=True, text=True, check=False
    )
    return (ended.stdout + ended.stderr).strip()


def with_payload(schema: Any) -> dict[str, Any]:
    entry = {**MANIFEST["jobs"]["greet"], "payload": {"schema": schema}}
    return {**MANIFEST, "jobs": {"greet": entry}}


def an_object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


@pytest.mark.parametrize(
    ("schema", "complaint"),
    [
        (an_object(a={"type": "string", "format": "ipv4"}), "jobs.greet.payload/a: text of format"),
        (an_object(a={"type": ["string", "null"]}), "jobs.greet.payload/a: a value of type"),
        (an_object(a=an_object(b=False)), "jobs.greet.payload/a/b: no value is valid for False"),
        (
            an_object(a={"allOf": [{"type": "string"}, {}]}),
            "jobs.greet.payload/a: allOf with several",
        ),
        (
            an_object(a={"enum": [1.5]}),
            "jobs.greet.payload/a: [1.5] cannot be written as a Literal",
        ),
        (
            an_object(a={"$ref": "#/$defs/None"}),
            "jobs.greet.payload/a: '#/$defs/None' is not defined",
        ),
        (
            {"type": "object", "properties": {"a": {"type": "string"}}},
            "jobs.greet.payload/a: it is optional, but the schema has no default",
        ),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "jobs.greet.payload: str | None is no"),
        ({"type": "null"}, "jobs.greet.payload: a payload cannot be null"),
        (
            {"$defs": {"A": {"type": "string"}}, **an_object(a={"$ref": "#/$defs/A"})},
            "jobs.greet.payload/$defs/A: a definition must be an object",
        ),
        (
            {"title": "Jobs", **an_object(a={})},
            "jobs.greet.payload: Jobs is a name that the module",
        ),
        (
            {"type": "object", "properties": {"a": {"type": "string", "default": 5}}},
            "jobs.greet.payload/a: its default, 5, is not a str",
        ),
    ],
)
def test_what_python_cannot_say_is_refused_by_its_place(schema: Any, complaint: str) -> None:
    with pytest.raises(DeclarationError) as refused:
        generate_module(with_payload(schema))
    assert complaint in str(refused.value)


@pytest.mark.parametrize(
    "field",
    [
        {"$ref": "#/$defs/A", "default": {"b": 1}},
        {"type": "array", "items": {"$ref": "#/$defs/A"}, "default": [{"b": 1}]},
        {
            "type": "array",
            "items": {"type": "array", "prefixItems": [{"type": "integer"}]},
            "default": [[1]],
        },
    ],
)
def test_a_default_that_is_no_plain_json_in_python_is_refused(field: dict[str, Any]) -> None:
    definitions = {"A": {"title": "A", **an_object(b={"type": "integer"})}}
    schema = {"type": "object", "properties": {"a": field}, "$defs": definitions}
    with pytest.raises(DeclarationError, match=r"payload/a: its default, .* is not plain"):
        generate_module(with_payload(schema))


def test_a_default_of_bytes_is_bytes() -> None:
    binary = {"type": "string", "format": "binary", "default": "x"}
    assert "a: bytes = b'x'" in generate_module(
        with_payload({"type": "object", "properties": {"a": binary}})
    ).replace('"', "'")


def test_a_module_that_would_say_something_else_is_not_handed_out() -> None:
    odd = with_payload(an_object(a={"type": "string", "contentEncoding": "base64"}))
    with pytest.raises(DeclarationError, match=r"jobs.greet.payload cannot be expressed in Python"):
        check_stable(odd, manifest_of(generate_module(odd)))


def test_two_types_of_one_name_are_refused() -> None:
    entry = MANIFEST["jobs"]["greet"]
    one, other = ({**an_object(a={"type": kind}), "title": "Same"} for kind in ("string", "null"))
    jobs = {
        "one": {**entry, "payload": {"schema": one}},
        "other": {**entry, "payload": {"schema": other}},
    }
    with pytest.raises(DeclarationError, match="two different types are called Same"):
        generate_module({**MANIFEST, "jobs": jobs})


def test_a_foreign_manifest_without_titles_makes_classes_too() -> None:
    foreign = with_payload(an_object(card=an_object(number={"type": "integer"})))
    source = generate_module(foreign)
    assert "class GreetPayload(BaseModel):\n    card: GreetPayloadCard\n" in source
    check_stable(foreign, manifest_of(source))


@pytest.mark.parametrize(
    "name", ['x"; import os; os.abort() #', "x\n    pass", "__class__", "lambda", "ä", ""]
)
def test_names_of_a_stranger_are_only_names(name: str) -> None:
    odd = with_payload(an_object(**{name: {"type": "integer", "title": name, "description": name}}))
    check_stable(odd, manifest_of(generate_module(odd)))
