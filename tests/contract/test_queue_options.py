"""The table of queue options and the typed surface of `job(...)` say the same."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from trellis_jobs import Jobs, KeyConcurrency, QueueDepth, job
from trellis_jobs.contract.declaration import JobOptions, JobType
from trellis_jobs.contract.option import Option
from trellis_jobs.contract.queue_options import DEPTH_OPTIONS, KEY_OPTIONS, QUEUE_OPTIONS


class PlainJobs(Jobs, service="plain"):
    plain = job(int)


def names(options: tuple[Option, ...]) -> list[str]:
    return [option.name for option in options]


def test_type_checkers_know_exactly_the_options_of_the_table() -> None:
    assert sorted(names(QUEUE_OPTIONS)) == sorted(JobOptions.__annotations__)


@pytest.mark.parametrize(
    ("declared", "options"), [(KeyConcurrency, KEY_OPTIONS), (QueueDepth, DEPTH_OPTIONS)]
)
def test_a_group_of_options_has_the_members_and_defaults_of_its_class(
    declared: Any, options: tuple[Option, ...]
) -> None:
    fields = {each.name: each.default for each in dataclasses.fields(declared)}
    assert {option.name: option.default for option in options} == fields


def test_every_value_of_a_job_type_but_its_own_comes_from_an_option() -> None:
    own = {"payload", "result", "consumer"}
    held = {(option.attribute or option.name).split(".")[0] for option in QUEUE_OPTIONS}
    assert held == {each.name for each in dataclasses.fields(JobType)} - own


@pytest.mark.parametrize("option", QUEUE_OPTIONS, ids=lambda option: option.name)
def test_an_option_that_is_left_out_has_the_default_of_the_table(option: Option) -> None:
    expected = "plain" if option.name == "name" else option.default
    assert option.value_of(PlainJobs.plain) == expected


@pytest.mark.parametrize(
    "option", [*QUEUE_OPTIONS, *KEY_OPTIONS, *DEPTH_OPTIONS], ids=lambda option: option.name
)
def test_every_option_is_described(option: Option) -> None:
    assert option.about
