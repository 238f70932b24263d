"""The published schema of manifests is of this code, and decides as the code does."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from tests.contract.test_manifest import queues
from tools import manifest_schema as published_schema
from trellis_jobs.contract.declaration import JobType, ServiceContract
from trellis_jobs.contract.manifest import from_manifest, manifest_schema, to_manifest
from trellis_jobs.errors import DeclarationError

VECTORS: Final = Path(__file__).parents[2] / "contracts" / "vectors"
SCHEMA: Final = Draft202012Validator(manifest_schema())
GOLDEN: Final = json.loads((VECTORS / "service-manifest.json").read_text(encoding="utf-8"))


def test_the_file_is_of_this_code() -> None:
    told = "run make docs"
    published = published_schema.FILE.read_text(encoding="utf-8")
    assert published == published_schema.text(), told
    Draft202012Validator.check_schema(json.loads(published))


@given(queue=queues)
def test_every_manifest_that_is_written_fits_it(queue: JobType[Any, Any]) -> None:
    SCHEMA.validate(to_manifest(ServiceContract("helpdesk", {"sync": queue})))


@pytest.mark.parametrize("file", sorted(VECTORS.glob("*manifest*.json")), ids=lambda f: f.name)
def test_golden_manifests_fit_it(file: Path) -> None:
    SCHEMA.validate(json.loads(file.read_text(encoding="utf-8")))


BREAKS: Final[dict[str, Callable[[dict[str, Any]], Any]]] = {
    "jobs": lambda m: m.pop("jobs"),
    "service": lambda m: m.update(service="a.b"),
    "format": lambda m: m.update(format="trellis.jobs.service@v2"),
    "jobs.a b": lambda m: m["jobs"].update({"a b": m["jobs"]["forget-report"]}),
    "jobs.forget-report.payload": lambda m: m["jobs"]["forget-report"].pop("payload"),
    "jobs.forget-report.payload.version": lambda m: m["jobs"]["forget-report"]["payload"].update(
        version=0
    ),
    "jobs.forget-report.maxDeliver": lambda m: m["jobs"]["forget-report"].update(maxDeliver=0),
    "jobs.forget-report.backoffMs.0": lambda m: m["jobs"]["forget-report"].update(backoffMs=[-1]),
    "jobs.forget-report.concurrency": lambda m: m["jobs"]["forget-report"].update(concurrency="4"),
    "jobs.forget-report.keyConcurrency.key": lambda m: m["jobs"]["forget-report"].update(
        keyConcurrency={"key": []}
    ),
    "jobs.forget-report.queue.whenFull": lambda m: m["jobs"]["forget-report"].update(
        queue={"whenFull": "wait"}
    ),
}


@pytest.mark.parametrize("place", BREAKS)
def test_what_does_not_fit_is_refused_by_its_place(place: str) -> None:
    broken = copy.deepcopy(GOLDEN)
    BREAKS[place](broken)
    assert not SCHEMA.is_valid(broken)
    with pytest.raises(DeclarationError) as refused:
        from_manifest(broken)
    assert f"not a manifest: {place}" in str(refused.value)


@given(word=st.sampled_from(["later", "x-team"]), value=st.integers() | st.text())
def test_what_a_later_version_adds_is_let_pass(word: str, value: Any) -> None:
    later = copy.deepcopy(GOLDEN)
    later["jobs"]["forget-report"][word] = value
    SCHEMA.validate(later)
    assert to_manifest(from_manifest(later)) == GOLDEN
