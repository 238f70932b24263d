"""Every link of every page leads somewhere, and every page can be found from the first one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = [
    *ROOT.glob("*.md"),
    *(
        page
        for folder in ("docs", "deploy", "examples", "benchmarks", "contracts")
        for page in (ROOT / folder).rglob("*.md")
    ),
]
_FENCE: Final = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
_LINK: Final = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_HEADING: Final = re.compile(r"^#+ (.+)$", re.MULTILINE)


def links(page: Path) -> Iterator[str]:
    prose = _FENCE.sub("", page.read_text(encoding="utf-8"))
    return (link for link in _LINK.findall(prose) if "://" not in link)


def anchors(page: Path) -> set[str]:
    """As GitHub and most renderers make them of headings."""
    prose = _FENCE.sub("", page.read_text(encoding="utf-8"))
    words = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in _HEADING.findall(prose))
    return {heading.strip().replace(" ", "-") for heading in words}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in links(page):
        target, _, anchor = link.partition("#")
        found = (page.parent / target).resolve() if target else page
        assert found.exists(), f"{link} leads nowhere"
        assert not anchor or anchor in anchors(found), f"{link}: there is no such heading"


def test_every_page_of_the_docs_is_reached_from_the_first_one() -> None:
    first = ROOT / "docs" / "index.md"
    seen, to_read = {first}, [first]
    while to_read:
        page = to_read.pop()
        targets = {(page.parent / link.partition("#")[0]).resolve() for link in links(page)}
        fresh = {each for each in targets if each.suffix == ".md" and each.exists()} - seen
        seen |= fresh
        to_read += fresh
    every = set((ROOT / "docs").rglob("*.md"))
    assert every <= seen, sorted(str(page.relative_to(ROOT)) for page in every - seen)
