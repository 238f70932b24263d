"""docs/reference/rpcs.md: every request with its fields, from the contract."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from jobs_admin.api.contract import contract

_PAGE: Final = """\
# Requests to the admin runtime

<!-- Generated from the contract by tools/reference/rpc_page.py: make docs -->

On this page you find every request with its fields. A request is a NATS request with a JSON
object, and any running daemon answers it with a JSON object. [Running the
admin](../guides/running-the-admin.md) explains them.
[contracts/trellis.jobs@v1.json](../../contracts/trellis.jobs@v1.json) has the same as JSON Schema.

{methods}

## Shapes

{shapes}"""


def page() -> str:
    document = contract()
    schemas: Mapping[str, Any] = document["schemas"]
    inputs = {_named(rpc["input"]) for rpc in document["rpc"].values()}
    methods = [_method(name, rpc, schemas) for name, rpc in document["rpc"].items()]
    shapes = [
        f"### {name}\n\n{_shape(schema)}"
        for name, schema in sorted(schemas.items())
        if name not in inputs
    ]
    return _PAGE.format(methods="\n\n".join(methods), shapes="\n\n".join(shapes) + "\n")


def _method(name: str, rpc: Mapping[str, Any], schemas: Mapping[str, Any]) -> str:
    asked = schemas[_named(rpc["input"])]
    parts = [
        f"## {name}",
        f"`{rpc['subject']}`, needs `{', '.join(rpc['capabilities']['call'])}`, "
        f"answers {_link(_named(rpc['output']))}, "
        f"errors {', '.join(error['type'] for error in rpc['errors'])}.",
    ]
    if _properties(asked):
        parts.append(_fields(asked))
    return "\n\n".join(parts)


def _shape(schema: Mapping[str, Any]) -> str:
    return _fields(schema) if _properties(schema) else f"{' or '.join(_types(schema))}."


def _fields(schema: Mapping[str, Any]) -> str:
    needed = set(schema.get("required", ()))
    rows = [
        f"| `{name}`{'' if name in needed else '?'} | {' or '.join(_types(field))} |"
        for name, field in _properties(schema).items()
    ]
    about = f"{schema['description']}\n\n" if schema.get("description") else ""
    return about + "| Field | Type |\n|---|---|\n" + "\n".join(rows)


def _properties(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = schema.get("properties", {})
    return found


def _types(field: Mapping[str, Any]) -> Iterator[str]:
    """What a value may be; that it may be left out is said by its name."""
    if "$ref" in field:
        yield _link(_named(field))
    elif "anyOf" in field:
        for each in field["anyOf"]:
            if each.get("type") != "null":
                yield from _types(each)
    elif "enum" in field:
        yield ", ".join(f"`{value}`" for value in field["enum"])
    elif field.get("type") == "array":
        yield "list of " + " or ".join(_types(field.get("items", {})))
    else:
        yield _plain(field)


def _plain(field: Mapping[str, Any]) -> str:
    words = field.get("format") or field.get("type") or "any JSON"
    bounds = [
        f"{word} {field[limit]}"
        for limit, word in (("minimum", "at least"), ("maximum", "at most"), ("maxLength", "up to"))
        if limit in field
    ]
    return ", ".join([str(words), *bounds])


def _named(reference: Mapping[str, Any]) -> str:
    return str(reference["$ref"]).rsplit("/", 1)[-1]


def _link(name: str) -> str:
    return f"[{name}](#{name.lower()})"
