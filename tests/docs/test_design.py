"""A comment that cites the design leads to a decision that is written down."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
FOLDERS: Final = (
    "trellis_jobs",
    "jobs_admin",
    "pytest_trellis_jobs",
    "tests",
    "benchmarks",
    "docs",
)
_CITED: Final = re.compile(r"\b[Dd]esign (D?\d+)((?:(?:, | and )D\d+)*)|\((D\d+)\)")
_HEADING: Final = re.compile(r"^#+ (?:(D\d+): |(\d)\. )", re.MULTILINE)


def cited(text: str) -> Iterator[str]:
    """`design D4, D6` cites two decisions, `design 5` a section, and `(D7)` a decision."""
    for first, more, alone in _CITED.findall(text):
        yield first or alone
        yield from re.findall(r"D\d+", more)


def test_every_citation_of_the_design_resolves() -> None:
    design = (ROOT / "docs/explain/design.md").read_text(encoding="utf-8")
    written = {decision or section for decision, section in _HEADING.findall(design)}
    lost = [
        f"{path.relative_to(ROOT)} cites {citation}"
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*")
        if path.suffix in {".py", ".md", ".sql"}
        for citation in cited(path.read_text(encoding="utf-8"))
        if citation not in written
    ]
    assert lost == []


def test_the_forms_of_a_citation_are_known() -> None:
    text = "… (design D4, D6). And (D7); design 5 too."
    assert list(cited(text)) == ["D4", "D6", "D7", "5"]


_PATH: Final = re.compile(r"`((?:trellis_jobs|jobs_admin|tests|tools)/[\w/.]+)`")


def test_every_file_that_the_map_names_exists() -> None:
    page = (ROOT / "docs/explain/life-of-a-job.md").read_text(encoding="utf-8")
    named = set(_PATH.findall(page))
    assert len(named) > 50
    assert sorted(path for path in named if not (ROOT / path).exists()) == []


def test_every_folder_of_the_code_has_a_row_in_the_map() -> None:
    page = (ROOT / "docs/explain/life-of-a-job.md").read_text(encoding="utf-8")
    parents = ("trellis_jobs", "trellis_jobs/jetstream", "jobs_admin")
    folders = [
        init.parent.relative_to(ROOT).as_posix()
        for parent in parents
        for init in sorted((ROOT / parent).glob("*/__init__.py"))
    ]
    assert len(folders) > 20
    missing = [each for each in folders if f"| `{each}` |" not in page and each not in parents]
    assert missing == []
