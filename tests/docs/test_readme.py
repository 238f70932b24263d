"""README.md: its program runs, its commands are there, and its screen is what one sees."""

from __future__ import annotations

import re
from pathlib import Path

from tests.cli.terminal import on_a_terminal
from tests.docs.blocks import ROOT, Block, blocks, shape
from tests.docs.walk import Walk
from tests.support.facts import until

PAGE = blocks("README.md")


def the(language: str) -> Block:
    [found] = [block for block in PAGE if block.language == language]
    return found


async def test_the_program_prints_what_the_page_shows(tmp_path: Path) -> None:
    with Walk.through(tmp_path) as walk:
        await walk.follow(the("python"))
        await walk.follow(the("console"))


def test_the_program_is_short() -> None:
    assert len([line for line in the("python").text.splitlines() if line.strip()]) <= 20


def test_every_block_is_accounted_for() -> None:
    assert [block.language for block in PAGE] == ["python", "console", "sh", "text"]


def test_its_commands_are_verbs_of_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text()
    typed = [line.split("#")[0].strip() for line in the("sh").text.splitlines()]
    assert typed == ["make dev", "make test"]
    assert re.search(r"^dev: .*\n\t@\$\(BIN\)/trellis-jobs dev$", makefile, re.MULTILINE)
    assert re.search(r"^test: ", makefile, re.MULTILINE)


async def test_its_screen_is_the_one_that_dev_shows() -> None:
    lines = the("text").text.splitlines()
    queues = lines[3 : lines.index("")]
    heads = [*lines[:4], lines[lines.index("") + 1]]
    names = [line.split()[0] for line in queues[1:]]
    columns = max(map(len, lines))
    with on_a_terminal("dev", "--port", "0", columns=columns) as (_, screen):

        def is_shown() -> bool:
            seen = [shape(line) for line in screen.plain_text.splitlines()]
            begins = {line.split()[0] for line in seen if line}
            return {shape(head) for head in heads} <= set(seen) and set(names) <= begins

        await until(is_shown, "every heading and every queue of the page is on the screen")
