"""A dictionary that holds a limited number of entries."""

from __future__ import annotations

from trellis_jobs.model.bounded_dict import BoundedDict


def test_the_entry_written_longest_ago_makes_room() -> None:
    found: BoundedDict[str, int] = BoundedDict(2)
    found["a"], found["b"], found["c"] = 1, 2, 3
    assert found == {"b": 2, "c": 3}


def test_an_entry_that_is_written_again_stays_longer() -> None:
    found: BoundedDict[str, int] = BoundedDict(2)
    found["a"], found["b"] = 1, 2
    found["a"] = 3
    found["c"] = 4
    assert found == {"a": 3, "c": 4}


def test_every_way_to_write_keeps_the_limit() -> None:
    found: BoundedDict[str, int] = BoundedDict(1)
    found.update(a=1, b=2)
    assert found.setdefault("c", 3) == 3
    assert found == {"c": 3}
