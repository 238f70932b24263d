"""Payloads of older code: brought up to date step by step, or refused with the cause."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from trellis_jobs import Jobs, job
from trellis_jobs.contract.consumer_metadata import (
    CONTRACT,
    contract_json,
    newer_contract,
    read_contract,
)
from trellis_jobs.contract.declaration import JobType
from trellis_jobs.contract.payload_types import PayloadType, TypeMismatch
from trellis_jobs.contract.versions import upgrade
from trellis_jobs.errors import DeclarationError


class Order(BaseModel):
    number: int
    cents: int


def from_1(old: dict[str, Any]) -> dict[str, Any]:
    return {"number": old["no"], "euros": old["euros"]}


def from_2(old: dict[str, Any]) -> dict[str, Any]:
    old["cents"] = old.pop("euros") * 100
    return old


QUEUE: JobType[Order, Any] = JobType(
    name="bill",
    payload=PayloadType(Order),
    result=PayloadType(type(None)),
    version=3,
    upgrades={1: from_1, 2: from_2},
)


def test_every_version_is_read_as_the_newest() -> None:
    wanted = Order(number=7, cents=500)
    assert QUEUE.read({"no": 7, "euros": 5}, 1) == wanted
    assert QUEUE.read({"number": 7, "euros": 5}, 2) == wanted
    assert QUEUE.read({"number": 7, "cents": 500}, 3) == wanted


def test_an_upgrade_that_changes_what_it_is_given_changes_nothing_else() -> None:
    stored: Any = {"number": 7, "euros": 5}
    QUEUE.read(stored, 2)
    assert stored == {"number": 7, "euros": 5}


@given(since=st.integers(1, 9), to=st.integers(1, 9))
def test_each_step_is_taken_once_and_in_order(since: int, to: int) -> None:
    steps = {n: (lambda found, n=n: [*found, n]) for n in range(1, to)}
    if since > to:
        with pytest.raises(TypeMismatch):
            upgrade([], since=since, to=to, upgrades=steps)
        return
    assert upgrade([], since=since, to=to, upgrades=steps) == list(range(since, to))


def test_a_step_that_fails_is_told_with_its_cause() -> None:
    with pytest.raises(TypeMismatch, match="from version 1 to 2 failed: KeyError: 'no'"):
        QUEUE.read({}, 1)


def test_a_version_that_nothing_leads_from_is_refused() -> None:
    short: JobType[int, Any] = JobType(
        name="bill",
        payload=PayloadType(int),
        result=PayloadType(type(None)),
        version=3,
        upgrades={2: abs},
    )
    with pytest.raises(TypeMismatch, match="it has version 1, and there is no upgrade"):
        short.read(1, 1)


@pytest.mark.parametrize(
    ("version", "upgrades", "complaint"),
    [
        (0, {}, "version must be a whole number of at least 1, is 0"),
        (True, {}, "version must be a whole number"),
        (2, {2: abs}, "without a gap"),
        (4, {1: abs, 3: abs}, "without a gap"),
        (3, {1: abs}, "without a gap"),
        (2, {1: 7}, r"upgrades\[1\] must be a function"),
    ],
)
def test_versions_that_lead_nowhere_are_refused_when_declared(
    version: Any, upgrades: Any, complaint: str
) -> None:
    with pytest.raises(DeclarationError, match=f"BadJobs.bill: .*{complaint}"):

        class BadJobs(Jobs, service="shop"):
            bill = job(int, version=version, upgrades=upgrades)


def test_older_code_does_not_take_back_what_newer_code_has_told_the_server() -> None:
    older = contract_json(
        "shop", JobType(name="bill", payload=PayloadType(int), result=PayloadType(int))
    )
    newer = contract_json("shop", QUEUE)
    assert newer_contract(newer, older) == newer
    assert newer_contract(older, newer) == newer
    assert newer_contract(older, None) == older
    assert newer_contract(older, "no JSON") == older
    read = read_contract({CONTRACT: newer}, "shop", "bill")
    assert read is not None
    assert (read.version, sorted(read.upgrades)) == (3, [1, 2])
    with pytest.raises(TypeMismatch, match="in the code of its service"):
        read.read({}, 1)


def test_what_an_upgrade_says_is_not_repeated_where_there_are_secrets() -> None:
    def broken(old: Any) -> Any:
        raise ValueError(f"invalid pin {old['pin']}")

    def try_upgrade(*, has_secrets: bool) -> Any:
        return upgrade(
            {"pin": "1234"}, since=1, to=2, upgrades={1: broken}, has_secrets=has_secrets
        )

    with pytest.raises(TypeMismatch, match="invalid pin 1234"):
        try_upgrade(has_secrets=False)
    with pytest.raises(TypeMismatch) as refused:
        try_upgrade(has_secrets=True)
    assert "1234" not in str(refused.value)
    assert refused.value.__cause__ is None
