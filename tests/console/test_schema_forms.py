"""Forms that are made from the JSON Schema of a payload, and payloads that are made from forms."""

from __future__ import annotations

from datetime import date, datetime
from enum import Enum
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

from jobs_admin.console.forms.filled_form import kept, read_form
from jobs_admin.console.forms.schema_fields import FieldKind, FormField, SchemaFields


class Size(Enum):
    SMALL = "small"
    LARGE = "large"


class Address(BaseModel):
    street: str
    zip: str | None = None


class Order(BaseModel):
    number: int
    price: float
    name: str = Field(description="As on the card.")
    rush: bool = False
    size: Size
    level: Literal[1, 2, 3] = 1
    day: date | None = None
    at: datetime | None = None
    note: str = Field(default="", max_length=5_000)
    ids: list[int] = []
    tags: list[str] = []
    home: Address
    extra: dict[str, Any] | None = None
    either: int | str = 1


def fields(model: type[BaseModel], payload: Any = None, *secrets: str) -> dict[str, FormField]:
    made = SchemaFields(model.model_json_schema(), secrets).fields(payload)
    return {field.pointer: field for field in made}


def test_each_type_has_its_kind_of_field() -> None:
    kinds = {pointer: field.kind.value for pointer, field in fields(Order).items()}
    assert kinds == {
        "/number": "integer",
        "/price": "number",
        "/name": "text",
        "/rush": "checkbox",
        "/size": "choice",
        "/level": "choice",
        "/day": "date",
        "/at": "time",
        "/note": "long-text",
        "/ids": "lines",
        "/tags": "lines",
        "/home/street": "text",
        "/home/zip": "text",
        "/extra": "json",
        "/either": "json",
    }


def test_what_must_be_given_is_marked_and_what_helps_is_shown() -> None:
    made = fields(Order)
    required = {pointer for pointer, field in made.items() if field.required}
    assert required == {"/number", "/price", "/name", "/size", "/home/street"}
    assert made["/name"].help == "As on the card."
    assert made["/size"].choices == ('"small"', '"large"')
    assert made["/home/street"].label == "home.street"


def test_a_secret_is_never_filled_in() -> None:
    made = fields(Order, {"name": "4242 4242"}, "/name")
    assert made["/name"].kind is FieldKind.SECRET
    assert made["/name"].text == ""


class Wallet(BaseModel):
    owner: str
    pins: list[str] = []
    cards: list[dict[str, str]] = []
    bank: Address | None = None


HIDDEN: dict[str, Any] = {
    "owner": "ann",
    "pins": ["[secret]", "[secret]"],
    "cards": [{"kind": "debit", "number": "[secret]"}],
    "bank": "[secret]",
}


def test_hidden_secrets_are_blank_in_every_kind_of_field_and_must_be_entered_again() -> None:
    made = fields(Wallet, HIDDEN, "/pins/*", "/cards/*/number", "/bank")
    assert not [field for field in made.values() if "[secret]" in field.text]
    assert (made["/owner"].text, made["/owner"].again_hint) == ("ann", "")
    assert made["/pins"].text == ""
    assert made["/pins"].again_hint == ("Secrets are hidden: enter them again (/pins/0, /pins/1).")
    assert '"debit"' in made["/cards"].text
    assert made["/cards"].again == ("/cards/0/number",)
    assert made["/bank/street"].again_hint == "It is hidden: enter it again."


def test_secrets_that_were_entered_are_not_sent_back() -> None:
    made = fields(Wallet, None, "/pins/*", "/cards/*/number")
    given = {
        "payload/owner": "ann",
        "payload/pins": "1234\n5678",
        "payload/cards": '[{"kind": "debit", "number": "4242"}]',
    }
    shown = {pointer: kept(field, given) for pointer, field in made.items()}
    assert (shown["/owner"].text, shown["/pins"].text) == ("ann", "")
    assert "4242" not in shown["/cards"].text
    assert shown["/cards"].again == ("/cards/0/number",)
    assert shown["/pins"].again == ("/pins/0", "/pins/1")


def test_json_with_a_mistake_stays_to_be_corrected() -> None:
    made = fields(Wallet, None, "/cards/*/number")
    assert kept(made["/cards"], {"payload/cards": '[{"kind"'}).text == '[{"kind"'


def test_a_secret_that_was_not_entered_again_is_still_missed() -> None:
    made = fields(Wallet, None, "/pins/*")
    assert kept(made["/pins"], {"again/pins": "yes"}).again_hint
    assert not kept(made["/pins"], {}).again_hint


PAYLOAD: dict[str, Any] = {
    "number": 7,
    "price": 9.5,
    "name": "Ann <b>",
    "rush": True,
    "size": "large",
    "level": 2,
    "day": "2027-01-31",
    "at": "2027-01-31T09:00:00Z",
    "note": "first\nsecond",
    "ids": [1, 2],
    "tags": ["a b", "c"],
    "home": {"street": "Main", "zip": "10115"},
    "extra": {"deep": [1, {"x": None}]},
    "either": "text",
}


def test_a_form_that_was_filled_with_a_payload_gives_the_same_payload() -> None:
    made = SchemaFields(Order.model_json_schema()).fields(PAYLOAD)
    filled = read_form(made, {field.name: field.text for field in made})
    assert filled.problems == {}
    assert filled.payload == PAYLOAD


def test_what_is_empty_and_not_required_is_left_out() -> None:
    made = SchemaFields(Order.model_json_schema()).fields()
    given = {
        "payload/number": "1",
        "payload/price": "2",
        "payload/name": "",
        "payload/size": '"small"',
        "payload/home/street": "x",
    }
    filled = read_form(made, given)
    assert filled.payload == {
        "number": 1,
        "price": 2.0,
        "name": "",
        "rush": False,
        "size": "small",
        "home": {"street": "x"},
    }


def test_text_that_is_not_of_its_type_is_named_by_its_field() -> None:
    made = SchemaFields(Order.model_json_schema()).fields()
    filled = read_form(
        made, {"payload/number": "1.5", "payload/extra": "{", "payload/ids": "1\ntwo"}
    )
    assert filled.payload is None
    assert filled.problems["/number"] == "'1.5' is not a whole number"
    assert filled.problems["/extra"].startswith("not valid JSON")
    assert filled.problems["/ids"] == "'two' is not a whole number"


@pytest.mark.parametrize(
    "schema",
    [
        None,
        {},
        {"type": "array", "items": {"type": "object"}},
        {"$ref": "#/$defs/Gone"},
        {"$ref": "#/$defs/Loop", "$defs": {"Loop": {"$ref": "#/$defs/Loop"}}},
        {"properties": {}, "type": "object"},
    ],
)
def test_a_schema_without_fields_is_a_field_for_json(schema: dict[str, Any] | None) -> None:
    [field] = SchemaFields(schema).fields({"any": 1})
    assert (field.pointer, field.kind) == ("", FieldKind.JSON)
    assert read_form([field], {field.name: field.text}).payload == {"any": 1}


class Tree(BaseModel):
    name: str
    children: list[Tree] = []


def test_a_type_that_contains_itself_ends_in_a_field_for_json() -> None:
    made = fields(Tree)
    assert made["/children"].kind is FieldKind.JSON


def test_names_with_slashes_keep_their_place() -> None:
    schema = {"type": "object", "properties": {"a/b": {"type": "string"}, "~": {"type": "string"}}}
    made = SchemaFields(schema).fields({"a/b": "x", "~": "y"})
    filled = read_form(made, {field.name: field.text for field in made})
    assert filled.payload == {"a/b": "x", "~": "y"}
