"""Fields that are marked secret: carried whole, and never shown."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    Field,
    SecretBytes,
    SecretStr,
    SerializeAsAny,
    field_validator,
)
from pydantic import Secret as PydanticSecret
from pydantic_core import PydanticCustomError

from trellis_jobs import Jobs, KeyConcurrency, Secret, job
from trellis_jobs.contract.payload_types import PayloadType, TypeMismatch
from trellis_jobs.contract.schema_types import SchemaType
from trellis_jobs.errors import DeclarationError
from trellis_jobs.model.redaction import (
    REDACTED,
    SHORTEST_SCRUBBED,
    is_secret,
    redacted,
    scrubbed,
    secret_texts,
)


class Card(BaseModel):
    number: SecretStr
    holder: str


class Charge(BaseModel):
    cards: list[Card]
    by_name: dict[str, Card] = {}
    token: Annotated[str, Secret()] = ""
    key: SecretBytes | None = None
    pair: tuple[int, SecretStr] | None = None
    odd: Annotated[str, Secret(), Field(alias="a/b~c")] = ""


PLACES = ("/cards/*/number", "/by_name/*/number", "/token", "/key", "/pair/1", "/a~1b~0c")
CHARGE = Charge.model_validate(
    {
        "cards": [{"number": "4000-1", "holder": "ann"}, {"number": "4000-2", "holder": "bob"}],
        "by_name": {"x": {"number": "4000-3", "holder": "eve"}},
        "token": "hush-1",
        "key": b"hush-2",
        "pair": [1, "hush-3"],
        "a/b~c": "hush-4",
    }
)
WHOLE = {
    "cards": [{"number": "4000-1", "holder": "ann"}, {"number": "4000-2", "holder": "bob"}],
    "by_name": {"x": {"number": "4000-3", "holder": "eve"}},
    "token": "hush-1",
    "key": "hush-2",
    "pair": [1, "hush-3"],
    "a/b~c": "hush-4",
}


def test_their_places_are_known_from_the_type_and_from_its_schema() -> None:
    shape = PayloadType(Charge)
    assert sorted(shape.secrets) == sorted(PLACES)
    assert sorted(SchemaType(shape.schema()).secrets) == sorted(PLACES)
    assert PayloadType(SecretStr).secrets == ("",)
    assert PayloadType(dict[str, int]).secrets == ()


def test_they_are_written_whole_and_read_again() -> None:
    shape = PayloadType(Charge)
    assert shape.to_json(CHARGE) == WHOLE
    assert shape.from_json(shape.to_json(CHARGE)) == CHARGE


def test_they_are_not_shown() -> None:
    shown = repr(redacted(shape_json(), PLACES))
    assert "4000" not in shown
    assert "hush" not in shown
    assert "'holder': 'ann'" in shown
    assert redacted("hush", [""]) == REDACTED
    assert redacted({"token": None}, ["/token"]) == {"token": None}


def shape_json() -> Any:
    return PayloadType(Charge).to_json(CHARGE)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=10,
)


@given(value=json_values, places=st.lists(st.text("/*ab0~", max_size=6), max_size=3))
def test_what_is_redacted_once_is_redacted_for_good_and_places_elsewhere_do_no_harm(
    value: Any, places: list[str]
) -> None:
    once = redacted(value, places)
    assert redacted(once, places) == once
    assert redacted(value, ["/no/such/place"]) == value


@given(
    secret=st.text(min_size=SHORTEST_SCRUBBED, max_size=8),
    around=st.tuples(st.text(max_size=4), st.text(max_size=4)),
    write=st.sampled_from([str, repr, json.dumps]),
)
def test_a_text_with_a_secret_in_it_is_scrubbed_of_it(
    secret: str, around: tuple[str, str], write: Callable[[str], str]
) -> None:
    before, after = around
    secrets = secret_texts({"a": [{"b": secret}]}, ["/a/*/b"])
    assert secrets == (secret,)
    said = scrubbed(f"{before} {write(secret)} {after}", secrets)
    assert secret not in said.replace(REDACTED, "")
    assert REDACTED in said


def test_names_and_numbers_in_a_secret_object_are_secret_too() -> None:
    value: Any = {"held": {"ann": [12345, True, None, 7]}, "open": "word"}
    assert secret_texts(value, ["/held"]) == ("12345", "ann")
    assert scrubbed("ann has 12345 and a word", secret_texts(value, ["/held"])) == (
        f"{REDACTED} has {REDACTED} and a word"
    )


def test_a_place_within_a_secret_is_secret() -> None:
    assert is_secret("/cards/0/number", PLACES)
    assert is_secret("/token/0", PLACES)
    assert not is_secret("/cards/0/holder", PLACES)
    assert not is_secret("/cards", PLACES)


def test_a_key_is_shown_everywhere_so_it_cannot_be_of_secrets() -> None:
    with pytest.raises(DeclarationError, match="/token is secret, so it cannot be part of a key"):

        class BadJobs(Jobs, service="shop"):
            charge = job(Charge, key=KeyConcurrency(["charge", "/token"]))


class Tree(BaseModel):
    value: str
    kids: list[Tree] = []


class SecretTree(BaseModel):
    value: SecretStr
    kids: list[SecretTree] = []


def test_a_type_that_contains_itself_may_not_have_any() -> None:
    assert PayloadType(Tree).secrets == ()
    with pytest.raises(DeclarationError, match="SecretTree contains itself"):
        PayloadType(SecretTree)


@pytest.mark.parametrize("make", [PayloadType, lambda kind: SchemaType(PayloadType(kind).schema())])
@pytest.mark.parametrize(
    "payload",
    [
        {"cards": "4000-9"},
        {"cards": [{"number": ["4000-9"], "holder": "ann"}]},
        {"cards": [], "token": {"hush": 1}},
        {"cards": [], "pair": [1, "hush", "hush"]},
    ],
)
def test_a_complaint_about_them_does_not_quote_them(make: Any, payload: Any) -> None:
    with pytest.raises(TypeMismatch) as refused:
        make(Charge).from_json(payload)
    assert str(refused.value)
    assert "4000" not in str(refused.value)
    assert "hush" not in str(refused.value)


class TwoNames(BaseModel):
    number: SecretStr = Field(
        validation_alias=AliasChoices("number", "num"), serialization_alias="num"
    )


def test_a_field_is_secret_under_the_name_it_is_written_by() -> None:
    shape = PayloadType(TwoNames)
    written = shape.to_json(TwoNames(number=SecretStr("4242")))
    assert written == {"num": "4242"}
    assert redacted(written, shape.secrets) == {"num": "[secret]"}


class Ring(BaseModel):
    keys: deque[SecretStr]


def test_secrets_in_any_collection_are_written_whole() -> None:
    ring = Ring(keys=deque([SecretStr("a"), SecretStr("b")]))
    assert PayloadType(Ring).to_json(ring) == {"keys": ["a", "b"]}


class Base(BaseModel):
    name: str = "n"


class WithPin(Base):
    pin: SecretStr


class Anything(BaseModel):
    inner: SerializeAsAny[Base]


@pytest.mark.parametrize(
    ("declared", "value"),
    [
        (Anything, Anything(inner=WithPin(pin=SecretStr("1234")))),
        (dict[SecretStr, int], {SecretStr("1234"): 1}),
        (PydanticSecret[int], PydanticSecret[int](1234)),
    ],
)
def test_a_secret_of_which_its_type_does_not_tell_is_refused(declared: Any, value: Any) -> None:
    with pytest.raises(TypeMismatch) as refused:
        PayloadType(declared).to_json(value)
    assert "1234" not in str(refused.value)


class Coin(BaseModel, frozen=True):
    mark: SecretStr


def test_what_cannot_be_written_does_not_fit() -> None:
    with pytest.raises(TypeMismatch):
        PayloadType(set[Coin]).to_json({Coin(mark=SecretStr("x"))})


class Checked(BaseModel):
    cvc: SecretStr

    @field_validator("cvc")
    @classmethod
    def short(cls, value: SecretStr) -> SecretStr:
        raise ValueError(f"bad cvc {value.get_secret_value()}")


def test_what_a_validator_says_of_a_secret_is_not_repeated() -> None:
    with pytest.raises(TypeMismatch, match="cvc: value_error") as refused:
        PayloadType(Checked).from_json({"cvc": "918"})
    assert "918" not in str(refused.value)


def test_ten_stars_that_are_no_secret_are_ten_stars() -> None:
    assert PayloadType(dict[str, str]).to_json({"a": "**********"}) == {"a": "**********"}


def quoting(value: str) -> str:
    raise PydanticCustomError("own_rule", "{value} is bad", {"value": value})


class Safe(BaseModel):
    codes: Annotated[dict[str, int], Secret()]
    pin: Annotated[str, Secret(), AfterValidator(quoting)]


def test_neither_rules_of_ones_own_nor_keys_of_a_secret_dictionary_are_quoted() -> None:
    with pytest.raises(TypeMismatch) as refused:
        PayloadType(Safe).from_json({"codes": {"hunter2": "x"}, "pin": "hunter2"})
    assert "hunter2" not in str(refused.value)
    assert "codes.*: Input should be a valid integer" in str(refused.value)
