"""The key of a job: the same in every runtime, and never the same for two different things."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import example
from hypothesis import given as forall
from hypothesis import strategies as st

from trellis_jobs.errors import DeclarationError, KeyUnresolvable
from trellis_jobs.model import subjects
from trellis_jobs.model.keys.state import KeyAddress
from trellis_jobs.model.keys.template import KeyTemplate, Scalar

FILE: Final = Path(__file__).parents[2] / "contracts" / "vectors" / "key-derivation.json"
VECTORS: Final[list[dict[str, Any]]] = json.loads(FILE.read_text(encoding="utf-8"))
RESOLVED: Final = [vector for vector in VECTORS if "key" in vector]
UNRESOLVED: Final = [vector for vector in VECTORS if "error" in vector]

SCALAR: Final = (
    st.text(max_size=5)
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["1", "true", "a:b", '"', "0", "1e+21", 0, 1, -0.0, 1.0, 1e21, 10**21])
)


def shown(value: Scalar) -> str:
    return KeyTemplate(("/n",)).resolve({"n": value}).display


def meaning(value: Scalar) -> tuple[str, object]:
    """What a segment is to a runtime whose numbers are doubles, as those of JavaScript are."""
    if isinstance(value, bool | str):
        return type(value).__name__, value
    return "number", float(value)


def test_the_vectors_hold_keys_and_refusals() -> None:
    assert (len(RESOLVED), len(UNRESOLVED)) == (14, 4)


@pytest.mark.parametrize("vector", RESOLVED, ids=lambda vector: vector["key"])
def test_a_payload_has_the_key_that_the_original_runtimes_give_it(vector: dict[str, Any]) -> None:
    key = KeyTemplate(tuple(vector["template"])).resolve(vector["payload"])
    assert (key.display, key.hash) == (vector["key"], vector["keyHash"])
    stored = subjects.key_state(KeyAddress("svc", "sync", key.hash))
    assert stored == f"$KV.JOBS_KEYS.{vector['kvKey']}"


@pytest.mark.parametrize("vector", UNRESOLVED, ids=lambda vector: vector["error"])
def test_a_payload_without_a_key_for_the_original_runtimes_has_none(vector: dict[str, Any]) -> None:
    [pointer] = vector["template"]
    with pytest.raises(KeyUnresolvable) as refused:
        KeyTemplate((pointer,)).resolve(vector["payload"])
    assert refused.value.pointer == pointer
    assert repr(pointer) in str(refused.value)


# As JavaScript prints them: String(n).
@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1e21, "1e+21"),
        (10**21, "1e+21"),
        (1e20, "100000000000000000000"),
        (999999999999999900000.0, "999999999999999900000"),
        (123456789012345680000.0, "123456789012345680000"),
        (1.7976931348623157e308, "1.7976931348623157e+308"),
        (1e-6, "0.000001"),
        (1.234e-6, "0.000001234"),
        (1e-7, "1e-7"),
        (-1e-7, "-1e-7"),
        (1.5e-7, "1.5e-7"),
        (1.23e-18, "1.23e-18"),
        (5e-324, "5e-324"),
        (-0.0, "0"),
        (0, "0"),
        (1.0, "1"),
        (100.0, "100"),
        (-1.5, "-1.5"),
        (1 / 3, "0.3333333333333333"),
        (2**53, "9007199254740992"),
        (2**53 - 1, "9007199254740991"),
        (2**53 + 1, "9007199254740992"),
        (-(2**53) - 1, "-9007199254740992"),
        (2**63, "9223372036854776000"),
        (2**64 - 1, "18446744073709552000"),
        (True, "true"),
        (False, "false"),
    ],
    ids=repr,
)
def test_a_number_in_a_key_reads_as_javascript_prints_it(number: float, text: str) -> None:
    assert shown(number) == text


@forall(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_in_a_key_reads_back_as_the_same_number(number: float) -> None:
    assert float(shown(number)) == number


@forall(st.tuples(SCALAR, SCALAR), st.tuples(SCALAR, SCALAR))
@example(("a", "b:c"), ("a:b", "c"))
@example((1, True), (True, 1))
@example((1, "1"), ("1", 1))
@example((0, 0.0), (-0.0, False))
@example(('a","b', "c"), ("a", 'b","c'))
@example((2**53, 0), (2**53 + 1, 0))
def test_two_payloads_share_a_hash_exactly_if_their_typed_segments_are_equal(
    one: tuple[Scalar, Scalar], other: tuple[Scalar, Scalar]
) -> None:
    template = KeyTemplate(("/a", "tickets", "/b"))
    first, second = (template.resolve({"b": b, "a": a, "c": None}) for a, b in (one, other))
    equal = [meaning(value) for value in one] == [meaning(value) for value in other]
    assert (first.hash == second.hash) == equal


@forall(st.lists(st.text(min_size=1, max_size=4).filter(lambda s: s[0] != "/"), min_size=1))
def test_constants_are_a_key_whatever_the_payload_is(constants: list[str]) -> None:
    key = KeyTemplate(tuple(constants)).resolve(None)
    assert key.display == ":".join(constants)
    assert key == KeyTemplate(tuple(constants)).resolve({"any": "thing"})


@pytest.mark.parametrize(
    ("pointer", "payload"),
    [
        ("/a/b", {"a": {"b": "x"}}),
        ("/a/0/b", {"a": [{"b": "x"}]}),
        ("/a~1b", {"a/b": "x"}),
        ("/~01", {"~1": "x"}),
        ("//", {"": {"": "x"}}),
        ("/0", {"0": "x"}),
        ("/1", ["w", "x"]),
    ],
)
def test_a_pointer_leads_through_objects_and_lists(pointer: str, payload: Any) -> None:
    assert KeyTemplate((pointer,)).resolve(payload).display == "x"


@pytest.mark.parametrize(
    ("pointer", "payload"),
    [
        ("/b", {"a": "x"}),
        ("/a/b", {"a": "x"}),
        ("/a", {"a": {"b": 1}}),
        ("/a/-", {"a": ["x"]}),
        ("/a/00", {"a": ["x"]}),
        ("/a/-1", {"a": ["x"]}),
        ("/a/\u0660", {"a": ["x"]}),
        ("/a/" + "9" * 5000, {"a": ["x"]}),
        ("/a", {"a": float("nan")}),
        ("/a", {"a": float("inf")}),
        ("/a", {"a": -float("inf")}),
        ("/a", {"a": 10**400}),
        ("/a", {"a": "caf\udce9.pdf"}),
        ("/a", None),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_a_pointer_that_leads_to_no_scalar_is_named(pointer: str, payload: Any) -> None:
    with pytest.raises(KeyUnresolvable) as refused:
        KeyTemplate(("constant", pointer)).resolve(payload)
    assert refused.value.pointer == pointer


@pytest.mark.parametrize(
    ("segments", "complaint"),
    [
        ((), "at least one segment"),
        (("a", ""), "cannot be empty"),
        (("/a~",), "'/a~' has a bad escape"),
        (("/a~2b",), "'/a~2b' has a bad escape"),
        (("/ok", "/a~~0"), "'/a~~0' has a bad escape"),
        ((42,), "must be text, found 42"),
        ((None,), "must be text, found None"),
        (("caf\udce9",), "must be text"),
    ],
    ids=repr,
)
def test_a_template_that_cannot_work_is_refused_where_it_is_written(
    segments: tuple[Any, ...], complaint: str
) -> None:
    with pytest.raises(DeclarationError, match=complaint):
        KeyTemplate(segments)


def test_a_tilde_in_a_constant_is_just_a_tilde() -> None:
    assert KeyTemplate(("a~b",)).resolve({}).display == "a~b"
