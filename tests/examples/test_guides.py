"""The code that guides show is the code of examples/, which is tested."""

from __future__ import annotations

import re
from typing import Final

import pytest

from tests.docs.blocks import ROOT, blocks

# An example, and the guides that show its files.
SHOWN_IN: Final = {
    "resources": ("resources",),
    "shop": ("fastapi", "flask-and-django"),
    "fastapi_shop": ("fastapi",),
    "flask_shop": ("flask-and-django",),
    "django_shop": ("flask-and-django",),
    "sentry_shop": ("logging-and-sentry",),
    "nightly": ("delays-and-schedules",),
    "from_celery": ("from-celery-and-arq",),
}
FILES: Final = [
    (str(path.relative_to(ROOT)), guide)
    for example, guides in SHOWN_IN.items()
    for path in sorted((ROOT / "examples" / example).iterdir())
    for guide in guides
    if path.is_file() and path.read_text()
]


def shown(guide: str) -> dict[str, str]:
    """The files that a guide shows, by the name in their first line."""
    found = [
        re.match(r"# (examples/\S+)\n(.*)", block.text, re.DOTALL)
        for block in blocks(f"docs/guides/{guide}.md")
    ]
    return {match[1]: match[2] for match in found if match}


@pytest.mark.parametrize(("file", "guide"), FILES)
def test_a_guide_shows_its_example_as_it_is(file: str, guide: str) -> None:
    code = (ROOT / file).read_text().replace("from __future__ import annotations\n\n", "")
    assert shown(guide)[file] == code


def test_every_example_has_its_guide_and_its_line() -> None:
    folders = {path.parent.name for path in (ROOT / "examples").glob("*/*.py")}
    alone = {path.parent.name for path in (ROOT / "examples").glob("*/__main__.py")}
    assert folders - alone == SHOWN_IN.keys()
    index = (ROOT / "examples" / "README.md").read_text()
    assert all(f"(../docs/guides/{guide}.md)" in index for _, guide in FILES)
