"""A key pointer that no payload can have a value for is refused where the queue is declared.

Reproduction: `key=KeyConcurrency(["/orign"])` was accepted, and every `create()` failed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from trellis_jobs import DeclarationError, Jobs, KeyConcurrency, KeyUnresolvable, job
from trellis_jobs.contract.payload_types import PayloadType, TypeMismatch
from trellis_jobs.contract.schema_types import SchemaType
from trellis_jobs.model.keys.template import KeyTemplate


class Customer(BaseModel):
    id: int
    name: str | None = None


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")


class Node(BaseModel):
    name: str
    next: Node | None = None


@dataclass
class Point:
    x: int


class Document(TypedDict):
    id: str


class Order(BaseModel):
    customer: Customer
    buyers: list[Customer] = []
    pair: tuple[int, Customer] = (1, Customer(id=1))
    labels: dict[str, str] = {}
    free: dict[str, Any] = {}
    anything: Any = None
    either: Customer | Point | None = None
    extra: Open = Open()
    node: Node | None = None
    nothing: None = None
    kind: Literal["a", "b"] = "a"
    odd: str = Field(default="", alias="a/b~c")
    written: str = Field(default="", serialization_alias="asWritten")


CAN = [
    "/customer/id",
    "/customer/name",
    "/buyers/0/id",
    "/pair/0",
    "/pair/1/id",
    "/labels/anything",
    "/free/deep/er",
    "/anything/at/all",
    "/either/id",
    "/either/x",
    "/extra/whatever",
    "/node/next/next/name",
    "/kind",
    "/a~1b~0c",
    "/asWritten",
]
CANNOT = [
    "/custmer/id",
    "/customer",
    "/customer/idd",
    "/customer/id/more",
    "/buyers/id",
    "/buyers/0",
    "/buyers/0/idd",
    "/pair/1",
    "/labels/anything/more",
    "/either/y",
    "/node/next/nxt",
    "/nothing",
    "/written",
    "/",
]


@pytest.mark.parametrize("pointer", CAN)
def test_what_a_payload_can_have_is_accepted(pointer: str) -> None:
    assert PayloadType(Order).may_hold_key(pointer)


@pytest.mark.parametrize("pointer", CANNOT)
def test_what_no_payload_has_is_refused_with_the_way_out(pointer: str) -> None:
    with pytest.raises(
        DeclarationError, match=r"OrderJobs.place: .*the key pointer.* does not point to"
    ):

        class OrderJobs(Jobs, service="orders"):
            place = job(Order, key=KeyConcurrency(["order", pointer]))


@pytest.mark.parametrize("pointer", CANNOT)
def test_what_is_refused_would_have_failed_at_every_create(pointer: str) -> None:
    whole: Any = {
        "customer": {"id": 1, "name": "ann"},
        "buyers": [{"id": 2}],
        "labels": {"anything": "x"},
        "either": {"x": 1},
        "node": {"name": "a", "next": {"name": "b", "next": {"name": "c"}}},
    }
    written = PayloadType(Order).to_json(whole)
    with pytest.raises(KeyUnresolvable):
        KeyTemplate((pointer,)).resolve(written)


@pytest.mark.parametrize(
    ("kind", "pointer"), [(Point, "/y"), (Document, "/idd"), (int, "/x"), (list[int], "/x")]
)
def test_other_types_are_looked_into_too(kind: Any, pointer: str) -> None:
    assert not PayloadType(kind).may_hold_key(pointer)


def test_a_schema_without_code_is_open_unless_it_says_otherwise() -> None:
    schema = {"type": "object", "properties": {"id": {"type": "string"}}}
    assert SchemaType(schema).may_hold_key("/other")
    assert not SchemaType(schema).may_hold_key("/id/more")
    assert not SchemaType({**schema, "additionalProperties": False}).may_hold_key("/other")
    assert SchemaType(True).may_hold_key("/other")


@pytest.mark.parametrize("value", [{"x": 1}, [int], "str", 7, Point(1), Customer(id=1), print, len])
def test_a_payload_that_is_no_type_is_refused_with_what_to_pass(value: Any) -> None:
    """Reproduction: `job({"x": 1})` raised KeyError: 'type'."""
    with pytest.raises(DeclarationError, match="cannot be a payload or result: pass a type"):

        class WrongJobs(Jobs, service="wrong"):
            wrong = job(value)


def test_misfits_keep_their_own_error() -> None:
    with pytest.raises(TypeMismatch):
        PayloadType(Customer).to_json({"id": "x"})  # type: ignore[arg-type]
