"""Payloads and results: what a type may be, and what becomes of its values on the way."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given as forall
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, computed_field
from typing_extensions import TypedDict  # pydantic wants this one before Python 3.12

from trellis_jobs.contract.payload_types import MAX_DEPTH, PayloadType, TypeMismatch
from trellis_jobs.errors import DeclarationError


class Colour(Enum):
    RED = "red"


class Invoice(BaseModel):
    number: int
    lines: list[str] = []


class Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    due: datetime
    within: timedelta
    price: Decimal
    id: UUID
    colour: Colour

    @computed_field  # type: ignore[prop-decorator]
    @property
    def year(self) -> int:
        return self.due.year


class Aliased(BaseModel):
    document_id: str = Field(alias="documentId")


@dataclass(frozen=True)
class Point:
    x: int
    y: float = 0.5


class Document(TypedDict):
    id: str
    pages: int


STRICT = Strict(
    due=datetime(2026, 3, 28, 12, tzinfo=UTC),
    within=timedelta(hours=1),
    price=Decimal("9.90"),
    id=UUID(int=7),
    colour=Colour.RED,
)


@pytest.mark.parametrize(
    ("declared", "value", "json"),
    [
        (Invoice, Invoice(number=1, lines=["a"]), {"number": 1, "lines": ["a"]}),
        (Point, Point(1), {"x": 1, "y": 0.5}),
        (Document, Document(id="d-1", pages=3), {"id": "d-1", "pages": 3}),
        (Aliased, Aliased(documentId="d-1"), {"documentId": "d-1"}),
        (int, 7, 7),
        (str, "Übersicht 🙂", "Übersicht 🙂"),
        (bool, True, True),
        (float, 0.25, 0.25),
        (type(None), None, None),
        (list[Invoice], [Invoice(number=1)], [{"number": 1, "lines": []}]),
        (dict[int, str], {1: "one"}, {"1": "one"}),
        (set[int], {3}, [3]),
        (dict[str, Any], {"a": [1, None, "x"]}, {"a": [1, None, "x"]}),
        (
            Strict,
            STRICT,
            {
                "due": "2026-03-28T12:00:00Z",
                "within": "PT1H",
                "price": "9.90",
                "id": "00000000-0000-0000-0000-000000000007",
                "colour": "red",
            },
        ),
    ],
    ids=lambda part: getattr(part, "__name__", ""),
)
def test_a_value_comes_back_as_it_went(declared: type[Any], value: Any, json: Any) -> None:
    shape = PayloadType(declared)
    assert shape.to_json(value) == json
    assert shape.from_json(json) == value


@pytest.mark.parametrize(
    ("declared", "value", "where"),
    [
        (float, math.nan, "value: JSON cannot represent nan"),
        (list[float], [1.0, math.inf], "[1]: JSON cannot represent inf"),
        (dict[str, Any], {"a": {"b": -math.inf}}, "a.b: JSON cannot represent -inf"),
        (list[Any], [math.nan], "[0]: JSON cannot represent nan"),
        (dict[str, Any], {"a": (None, math.nan)}, "a[1]: JSON cannot represent nan"),
        (int, 2**64, "more than 64 bits"),
        (dict[str, Any], {"n": -(2**63) - 1}, "n: "),
        (str, "\ud800", "surrogate"),
        (bytes, b"\xff", "utf-8"),
        (dict[str, Any], {"a": object()}, "object"),
        (Invoice, Invoice.model_construct(number="many", lines=[]), "number"),
        (Invoice, {"number": "many"}, "number: "),
        (Document, {"id": "d-1"}, "pages: Field required"),
    ],
    ids=lambda part: getattr(part, "__name__", ""),
)
def test_what_json_cannot_carry_is_refused_before_it_is_sent_and_the_place_is_named(
    declared: type[Any], value: Any, where: str
) -> None:
    with pytest.raises(TypeMismatch) as refused:
        PayloadType(declared).to_json(value)
    assert where in str(refused.value)


@pytest.mark.parametrize("number", [2**64 - 1, -(2**63), 2**53 + 1])
def test_a_number_of_64_bits_stays_exact(number: int) -> None:
    assert PayloadType(int).from_json(PayloadType(int).to_json(number)) == number


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def test_a_value_may_be_nested_as_deep_as_it_can_be_read_back() -> None:
    shape: PayloadType[Any] = PayloadType(Any)
    assert shape.from_json(shape.to_json(nested(MAX_DEPTH))) == nested(MAX_DEPTH)


def test_members_count_as_levels_too() -> None:
    value: Any = 1
    for _ in range(MAX_DEPTH + 1):
        value = {"in": value}
    with pytest.raises(TypeMismatch, match="levels deep"):
        PayloadType[Any](Any).to_json(value)


@pytest.mark.parametrize("levels", [MAX_DEPTH + 1, 240, 300, 2000])
def test_a_value_nested_deeper_does_not_fit_in_either_direction(levels: int) -> None:
    shape: PayloadType[Any] = PayloadType(Any)
    with pytest.raises(TypeMismatch):
        shape.to_json(nested(levels))
    with pytest.raises(TypeMismatch):
        shape.from_json(nested(levels))


def test_a_value_that_contains_itself_does_not_fit() -> None:
    circle: list[Any] = []
    circle.append(circle)
    with pytest.raises(TypeMismatch):
        PayloadType[Any](Any).to_json(circle)


@pytest.mark.parametrize(
    ("declared", "json", "where"),
    [
        (Invoice, {"lines": []}, "number: Field required"),
        (Invoice, {"number": 1, "lines": [1]}, "lines.0: "),
        (Strict, {}, "due: Field required"),
        (int, "seven", "value: "),
        (type(None), 1, "value: "),
    ],
    ids=lambda part: getattr(part, "__name__", ""),
)
def test_stored_json_that_no_longer_fits_says_where_and_why(
    declared: type[Any], json: Any, where: str
) -> None:
    with pytest.raises(TypeMismatch) as refused:
        PayloadType(declared).from_json(json)
    assert where in str(refused.value)


def test_what_was_in_the_payload_is_not_repeated_in_the_complaint() -> None:
    with pytest.raises(TypeMismatch) as refused:
        PayloadType(Invoice).to_json({"number": "s3cret"})  # type: ignore[arg-type]
    assert "s3cret" not in str(refused.value)


class Opaque:
    pass


def test_a_type_that_json_cannot_carry_is_refused_at_the_declaration() -> None:
    with pytest.raises(DeclarationError, match="Opaque"):
        PayloadType(Opaque)


def test_a_type_without_a_json_schema_is_named() -> None:
    shape: PayloadType[Any] = PayloadType(Callable[[int], int])  # type: ignore[arg-type]
    with pytest.raises(DeclarationError, match="Callable"):
        shape.schema()


def test_the_schema_speaks_of_the_names_on_the_wire() -> None:
    assert list(PayloadType(Aliased).schema()["properties"]) == ["documentId"]


def test_two_shapes_of_one_type_are_equal() -> None:
    assert PayloadType(Point) == PayloadType(Point)
    assert hash(PayloadType(Point)) == hash(PayloadType(Point))
    assert PayloadType[Any](Point) != PayloadType[Any](Document)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@forall(JSON)
def test_any_json_at_all_comes_back_as_it_went(value: Any) -> None:
    shape: PayloadType[Any] = PayloadType(Any)
    assert shape.from_json(shape.to_json(value)) == value


@forall(st.text(st.characters(exclude_categories=())))
def test_any_text_is_carried_unchanged_or_refused(text: str) -> None:
    try:
        assert PayloadType(str).from_json(PayloadType(str).to_json(text)) == text
    except TypeMismatch as refused:
        assert "surrogate" in str(refused)  # noqa: PT017 - either is right
