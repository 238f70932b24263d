"""Hidden values of a payload are found, and can be given again."""

from __future__ import annotations

from trellis_jobs.model.json_values import Json
from trellis_jobs.model.redaction import (
    REDACTED,
    redacted,
    redacted_places,
    secrets_below,
    with_value_at,
)

SECRETS = ("/pin", "/cards/*/number", "/a~1b")
PAYLOAD: Json = {
    "pin": "1",
    "cards": [{"number": 2, "name": "x"}, {"number": None}],
    "a/b": "3",
    "note": REDACTED,
}


def test_every_hidden_value_has_a_place() -> None:
    hidden = redacted(PAYLOAD, SECRETS)
    assert redacted_places(hidden, SECRETS) == ("/pin", "/cards/0/number", "/a~1b")
    assert redacted_places(PAYLOAD, SECRETS) == ()


def test_values_can_be_put_back() -> None:
    value = redacted(PAYLOAD, SECRETS)
    for place, given in (("/pin", "1"), ("/cards/0/number", 2), ("/a~1b", "3")):
        value = with_value_at(value, place, given)
    assert value == PAYLOAD


def test_a_payload_may_be_a_secret_as_a_whole() -> None:
    assert redacted_places(redacted("x", [""]), [""]) == ("",)
    assert with_value_at(REDACTED, "", "x") == "x"


def test_secrets_are_named_as_seen_from_a_part_of_the_payload() -> None:
    assert secrets_below("", ["/pin"]) == ("/pin",)
    assert secrets_below("/pin", ["/pin", "/name"]) == ("",)
    assert secrets_below("/cards", ["/cards/*/number"]) == ("/*/number",)
    assert secrets_below("/cards/0", ["/cards/*/number"]) == ("/number",)
    assert secrets_below("/bank/name", ["/bank"]) == ("",)
    assert secrets_below("/name", ["/pin"]) == ()
