"""Schemas compared: what they say is checked against a validator that knows nothing of it."""

from __future__ import annotations

from enum import Enum
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
    st.sampled_from([{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}]),
)


Schemas = st.SearchStrategy[dict[str, Any]]


def _objects(inner: Schemas) -> Schemas:
    """Fields that are not declared are there only where the schema says so."""
    required = st.lists(st.sampled_from("xy"), unique=True)
    declared = st.fixed_dictionaries(
        {
            "type": st.just("object"),
            "properties": st.fixed_dictionaries({"x": inner, "y": inner}),
        },
        optional={"required": required, "additionalProperties": st.just(False)},
    )
    others = st.fixed_dictionaries(
        {"type": st.just("object"), "additionalProperties": st.booleans() | inner},
        optional={
            "required": required,
            "properties": st.fixed_dictionaries({}, optional={"x": inner, "y": inner}),
            "patternProperties": st.fixed_dictionaries({}, optional={"x|y": inner}),
            "propertyNames": inner,
        },
    )
    return declared | others


def _lists(inner: Schemas) -> Schemas:
    return st.fixed_dictionaries(
        {"type": st.just("array")},
        optional={
            "items": inner,
            "prefixItems": st.lists(inner, min_size=1, max_size=2),
            "maxItems": st.integers(0, 3),
        },
    )


def _nested(inner: Schemas) -> Schemas:
    several = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        st.fixed_dictionaries({"anyOf": several}, optional={"maxLength": st.integers(1, 3)}),
        st.fixed_dictionaries({"allOf": several}),
        _objects(inner),
        _lists(inner),
    )


INNER = st.recursive(SIMPLE, _nested, max_leaves=4)
# Containers, so that none is only a reference to itself.
DEFINITIONS = _objects(INNER) | _lists(INNER)
BOTH_DEFINITIONS = st.fixed_dictionaries({"A": DEFINITIONS, "B": DEFINITIONS})


def document(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    return {**schema, "$defs": definitions}


SCHEMAS = st.builds(document, INNER, BOTH_DEFINITIONS)
PAIRS = st.one_of(
    st.tuples(SCHEMAS, SCHEMAS),
    st.builds(
        lambda schema, old, new: (document(schema, old), document(schema, new)),
        INNER,
        BOTH_DEFINITIONS,
        BOTH_DEFINITIONS,
    ),
)


def fits(value: Any, schema: dict[str, Any]) -> bool:
    return jsonschema.Draft202012Validator(schema).is_valid(value)


@settings(max_examples=300)
@given(PAIRS, st.lists(VALUES, max_size=20))
def test_what_is_called_safe_refuses_nothing(
    pair: tuple[dict[str, Any], dict[str, Any]], values: list[Any]
) -> None:
    old, new = pair
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
        (Two, One, ["/size: may no longer be 'm'"]),
    ],
)
def test_choices_may_grow(old: type[BaseModel], new: type[BaseModel], expected: list[str]) -> None:
    found = narrowings(old.model_json_schema(), new.model_json_schema())
    assert [str(each) for each in found] == expected


def test_an_unknown_keyword_is_not_trusted() -> None:
    [found] = narrowings({"type": "string"}, {"type": "string", "contentEncoding": "base64"})
    assert "contentEncoding" in found.why


def test_fields_that_were_any_of_one_type_are_compared_with_that() -> None:
    numbers = {"type": "object", "additionalProperties": {"type": "integer"}}
    texts = {"type": "object", "properties": {"a": {"type": "string"}}}
    assert [each.path for each in narrowings(numbers, texts)] == ["/a"]
    assert [each.path for each in narrowings(texts, numbers)] == ["/*", "/a"]


def test_a_definition_that_is_missing_is_no_reason_for_trust() -> None:
    assert narrowings({"type": "string"}, {"$ref": "#/$defs/Nope"})


class Card(BaseModel):
    number: str


class Tuples(BaseModel):
    pair: tuple[Card, int]


class Patterns(BaseModel):
    by_code: dict[Annotated[str, Field(pattern="^[a-z]+$")], Card]


class Dictionaries(BaseModel):
    by_name: dict[str, Card]


class Shade(Enum):
    LIGHT = "light"


class Names(BaseModel):
    by_shade: dict[Shade, int]


def changed(model: type[BaseModel], name: str, **definition: Any) -> list[str]:
    """By a new text of one of its definitions, with the rest as it is."""
    schema = model.model_json_schema()
    new = {**schema, "$defs": {name: {**schema["$defs"][name], **definition}}}
    return [str(each) for each in narrowings(schema, new)]


@pytest.mark.parametrize(
    ("model", "path"),
    [(Tuples, "/pair/0"), (Patterns, "/by_code/^[a-z]+$"), (Dictionaries, "/by_name/*")],
)
def test_a_type_that_demands_more_is_found_wherever_it_is_used(
    model: type[BaseModel], path: str
) -> None:
    more = {"number": {"type": "string"}, "holder": {"type": "string"}}
    demanded = changed(model, "Card", properties=more, required=["number", "holder"])
    assert demanded == [f"{path}: now needs 'holder'"]
    assert changed(model, "Card", properties=more) == []


def test_names_of_fields_that_are_gone_are_found() -> None:
    assert changed(Names, "Shade", enum=["light", "dark"]) == []
    [found] = changed(Names, "Shade", enum=["dark"])
    assert found == "/by_shade/* (the name): may no longer be 'light'"


def test_the_target_of_an_unknown_keyword_may_not_change() -> None:
    old = {"not": {"$ref": "#/$defs/A"}, "$defs": {"A": {"type": "string"}}}
    assert narrowings(old, old) == []
    assert narrowings(old, {**old, "$defs": {"A": {"type": "number"}}})


class Node(BaseModel):
    child: Node | None = None


class Stump(BaseModel):
    child: str | None = None


def test_a_schema_that_contains_itself_is_not_taken_for_answered_when_another_takes_its_place() -> (
    None
):
    assert narrowings(Node.model_json_schema(), Stump.model_json_schema())


class Open(BaseModel, extra="allow"):
    number: int


class OpenWithNote(Open):
    note: str = ""


class OpenWithAnything(Open):
    note: Any = None


def test_a_new_field_may_refuse_what_was_stored_by_its_name_where_all_names_were_allowed() -> None:
    [found] = narrowings(Open.model_json_schema(), OpenWithNote.model_json_schema())
    assert found.path == "/note"
    assert narrowings(Open.model_json_schema(), OpenWithAnything.model_json_schema()) == []
    assert narrowings({"type": "object"}, Stump.model_json_schema())


class Cat(BaseModel):
    kind: Literal["cat"]


class Dog(BaseModel):
    kind: Literal["dog"]


class Cats(BaseModel):
    pet: Annotated[Cat | Dog, Field(discriminator="kind")]


class MorePets(BaseModel):
    pet: Annotated[Cat | Dog | Bird, Field(discriminator="kind")]


class UntaggedPets(BaseModel):
    pet: Cat | Dog


class Bird(BaseModel):
    kind: Literal["bird"]


def test_one_more_kind_of_a_tagged_union_refuses_nothing() -> None:
    MorePets.model_rebuild()
    two, three = Cats.model_json_schema(), MorePets.model_json_schema()
    untagged = UntaggedPets.model_json_schema()
    assert narrowings(two, three) == []
    assert narrowings(two, untagged) == []
    assert [each.path for each in narrowings(three, two)] == ["/pet/kind"]
    assert [each.path for each in narrowings(untagged, two)] == ["/pet"]


def test_a_pair_may_become_a_list_of_the_same() -> None:
    pair = {"type": "array", "prefixItems": [{"type": "integer"}] * 2, "maxItems": 2}
    numbers = {"type": "array", "items": {"type": "integer"}}
    assert narrowings(pair, numbers) == []
    assert narrowings(numbers, pair)


def test_what_stands_beside_a_reference_holds_too() -> None:
    short = {"type": "string", "maxLength": 3}
    new = {"$ref": "#/$defs/A", "maxLength": 9, "$defs": {"A": short}}
    assert narrowings({"type": "string", "maxLength": 5}, new)
    assert narrowings(short, new) == []
