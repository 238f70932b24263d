"""docs/quickstart.md, followed from its first line to its last."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT, blocks
from tests.docs.walk import Walk

PAGE = blocks("docs/quickstart.md")


@pytest.mark.timeout(180)
async def test_a_reader_who_follows_the_page_sees_what_it_shows(tmp_path: Path) -> None:
    with Walk.through(tmp_path) as walk:
        for block in PAGE[1:]:
            await walk.follow(block)


def test_every_block_is_followed() -> None:
    install, *others = PAGE
    assert install.text == "pip install '.[embedded]'\n"
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert "embedded" in extras["optional-dependencies"]
    assert {block.language for block in others} == {"python", "console"}
    assert all(block.file or block.commands() for block in others)


def test_the_service_is_short() -> None:
    service = next(block for block in PAGE if block.file == "app.py")
    assert len([line for line in service.text.splitlines() if line.strip()]) <= 20
