"""The fields of payloads that jobs can be filtered by, from the JSON Schemas of contracts."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from trellis_jobs.contract.schema_pointer import may_lead_to_scalar
from trellis_jobs.model.redaction import is_secret

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Path = tuple[str, ...]

# The projection stores the values of fields down to this depth.
_MAX_DEPTH: Final = 4
# A small schema that refers to itself can describe any number of fields.
_MAX_FIELDS: Final = 500
_MAX_PARTS: Final = 100
_BRANCHES: Final = ("anyOf", "oneOf", "allOf")


def payload_paths(schema: Any, secrets: Iterable[str] = ()) -> list[str]:
    """The paths of fields that may have scalar values, such as `customer.id`, but no secret ones.

    `secrets` are JSON Pointers.
    """
    hidden = tuple(secrets)
    found = dict.fromkeys(islice(_Fields(schema).under(schema, ()), _MAX_FIELDS))
    pointers = {path: "".join(f"/{_escaped(name)}" for name in path) for path in found}
    return [
        ".".join(path)
        for path, pointer in pointers.items()
        if not is_secret(pointer, hidden) and may_lead_to_scalar(schema, pointer, is_closed=False)
    ]


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


class _Fields:
    def __init__(self, document: Any) -> None:
        self._definitions = _mapping(_mapping(document).get("$defs"))

    def under(self, schema: Any, within: Path) -> Iterator[Path]:
        """The fields of an object and of the objects in it, in the order of their declaration."""
        if len(within) >= _MAX_DEPTH:
            return
        for part in islice(self._parts(schema), _MAX_PARTS):
            for name, of_field in _mapping(part.get("properties")).items():
                yield (*within, name)
                yield from self.under(of_field, (*within, name))

    def _parts(self, schema: Any, depth: int = 0) -> Iterator[Mapping[str, Any]]:
        """The schema and all that it refers to or combines."""
        if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
            return
        yield schema
        name = str(schema.get("$ref", "")).rsplit("/", 1)[-1]
        yield from self._parts(self._definitions.get(name), depth + 1)
        for word in _BRANCHES:
            branches = schema.get(word)
            for branch in branches if isinstance(branches, list) else ():
                yield from self._parts(branch, depth + 1)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
