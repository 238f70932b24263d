"""Schemas compared: what they say is checked against a validator that knows nothing of it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from trellis_jobs.contract.schema_changes import narrowings

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "ab", "abc"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("xy"), inner, max_size=2)
    ),
    max_leaves=4,
)
SIMPLE = st.one_of(
    st.just({}),
    st.fixed_dictionaries({"type": st.sampled_from(["null", "boolean", "integer", "number"])}),
    st.fixed_dictionaries(
        {"type": st.just("string")},
        optional={"minLength": st.integers(0, 2), "maxLength": st.integers(1, 3)},
    ),
    st.fixed_dictionaries(
        {"type": st.just("integer")},
        optional={"minimum": st.integers(-2, 1), "maximum": st.integers(0, 3)},
    ),
    st.fixed_dictionaries({"enum": st.lists(st.sampled_from(["a", "ab", 1]), min_size=1)}),
    st.fixed_dictionaries({"const": st.sampled_from(["a", 1, None])}),
)


def _nested(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    properties = st.fixed_dictionaries({"x": inner, "y": inner})
    return st.one_of(
        st.fixed_dictionaries({"anyOf": st.lists(inner, min_size=1, max_size=3)}),
        st.fixed_dictionaries({"type": st.just("array"), "items": inner}),
        st.fixed_dictionaries(
            {"type": st.just("object"), "properties": properties},
            optional={
                "required": st.lists(st.sampled_from("xy"), unique=True),
                "additionalProperties": st.just(False),
            },
        ),
    )


SCHEMAS = st.recursive(SIMPLE, _nested, max_leaves=5)


def fits(value: Any, schema: dict[str, Any]) -> bool:
    return jsonschema.Draft202012Validator(schema).is_valid(value)


@settings(max_examples=300, deadline=None)
@given(SCHEMAS, SCHEMAS, st.lists(VALUES, max_size=20))
def test_what_is_called_safe_refuses_nothing(
    old: dict[str, Any], new: dict[str, Any], values: list[Any]
) -> None:
    if not narrowings(old, new):
        assert [value for value in values if fits(value, old) and not fits(value, new)] == []


@given(SCHEMAS)
def test_a_schema_accepts_what_it_accepts(schema: dict[str, Any]) -> None:
    assert narrowings(schema, schema) == []


class Leaf(BaseModel):
    name: str


class Tree(BaseModel):
    label: str
    children: list[Tree] = []
    leaf: Leaf | None = None


class LaxTree(BaseModel):
    label: str = ""
    children: list[LaxTree] = []
    leaf: Leaf | str | None = None


class StrictTree(BaseModel):
    label: Annotated[str, Field(max_length=5)]
    children: list[StrictTree] = []
    leaf: Leaf | None = None


def test_schemas_that_contain_themselves_are_compared() -> None:
    tree = Tree.model_json_schema()
    assert narrowings(tree, LaxTree.model_json_schema()) == []
    [found] = narrowings(tree, StrictTree.model_json_schema())
    assert str(found) == "/label: the length is at most 5, was unlimited"


class One(BaseModel):
    size: Literal["s"]


class Two(BaseModel):
    size: Literal["s", "m"]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (One, Two, []),
        (Two, One, ["/size: may be 'm' no more"]),
    ],
)
def test_choices_may_grow(old: type[BaseModel], new: type[BaseModel], expected: list[str]) -> None:
    found = narrowings(old.model_json_schema(), new.model_json_schema())
    assert [str(each) for each in found] == expected


def test_a_keyword_that_nobody_knows_is_no_reason_for_trust() -> None:
    [found] = narrowings({"type": "string"}, {"type": "string", "contentEncoding": "base64"})
    assert "contentEncoding" in found.why


def test_fields_that_were_any_of_one_type_are_compared_with_that() -> None:
    numbers = {"type": "object", "additionalProperties": {"type": "integer"}}
    texts = {"type": "object", "properties": {"a": {"type": "string"}}}
    assert [each.path for each in narrowings(numbers, texts)] == ["/a"]
    assert [each.path for each in narrowings(texts, numbers)] == ["/*", "/a"]


def test_a_definition_that_is_missing_is_no_reason_for_trust() -> None:
    assert narrowings({"type": "string"}, {"$ref": "#/$defs/Nope"})
