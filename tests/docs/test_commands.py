"""Every `trellis-jobs` command that a page shows exists, with the options it is shown with."""

from __future__ import annotations

import functools
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from jobs_admin.cli.app import command_line
from tests.docs.test_links import PAGES, ROOT

# The changelog tells of commands that were.
OF_TODAY: Final = [page for page in PAGES if page.name != "CHANGELOG.md"]
_BLOCK: Final = re.compile(r"^```(?:sh|bash|console)\n(.*?)^```", re.DOTALL | re.MULTILINE)
_INLINE: Final = re.compile(r"`(trellis-jobs [^`]+)`")
_ENDS: Final = frozenset({"|", "&&", "||", ";", "&", ">", ">>", "2>&1", "#", "…"})


def commands(page: Path) -> Iterator[str]:
    """The first line of a screen begins as a command does, and has three spaces."""
    text = page.read_text(encoding="utf-8")
    for block in _BLOCK.findall(text):
        for line in block.replace("\\\n", " ").splitlines():
            found = re.search(r"(?:^|[$|&;] *|/)(trellis-jobs (?!\w+ {3}).*)", line)
            if found:
                yield found[1]
    yield from _INLINE.findall(text)


def commands_of_console() -> Iterator[str]:
    for template in sorted((ROOT / "jobs_admin/console/templates").glob("*.html")):
        yield from re.findall(r"trellis-jobs [a-z][^\"<`{]*", template.read_text(encoding="utf-8"))


def words(command: str) -> list[str]:
    """Up to where the shell's own begins."""
    kept: list[str] = []
    for word in shlex.split(command, comments=True)[1:]:
        if word in _ENDS:
            break
        kept.append(word)
    return kept


@functools.cache
def every_command() -> Any:
    return get_command(command_line())


def complaint(command: str) -> str | None:
    found = every_command()
    rest = words(command)
    while isinstance(found, TyperGroup) and rest and not rest[0].startswith("-"):
        name = rest.pop(0)
        several = name.split("|")
        if not all(each in found.commands for each in several):
            return f"there is no {name!r}"
        found = found.commands[several[0]]
    known = {option for each in found.params for option in (*each.opts, *each.secondary_opts)}
    for word in rest:
        option = word.split("=")[0]
        if option.startswith("--") and option not in known | {"--help"}:
            return f"{found.name} has no option {option}"
    return lacking(found, rest)


def lacking(command: Any, rest: list[str]) -> str | None:
    """What is required of a whole command; one that is only named, as `queues pause`, says none."""
    said = {word.split("=")[0] for word in rest}
    if not said or "--help" in said:
        return None
    for each in command.params:
        if each.required and each.param_type_name == "option" and not said & set(each.opts):
            return f"{command.name} lacks {each.opts[0]}"
    taken = [each for each in command.params if each.param_type_name == "argument"]
    given = len(arguments(command, rest))
    if given < sum(each.required for each in taken):
        return f"{command.name} lacks an argument"
    if given > len(taken) and all(each.nargs == 1 for each in taken):
        return f"{command.name} has too many arguments"
    return None


def arguments(command: Any, rest: list[str]) -> list[str]:
    """The words that are neither options nor their values."""
    takes_value = {
        option
        for each in command.params
        if each.param_type_name == "option" and not each.is_flag
        for option in each.opts
    }
    before = [None, *rest]
    return [
        word
        for previous, word in zip(before, rest, strict=False)
        if previous not in takes_value and (not word.startswith("-") or word == "-")
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_names_its_language(page: Path) -> None:
    """A block without one would not be looked at here, nor coloured on the site."""
    fences = re.findall(r"^ *```(.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert all(fences[::2]), fences
    assert not any(fences[1::2]), fences


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("trellis-jobs queues pause SERVICE/TYPE --for 30m", "pause lacks --reason"),
        ("trellis-jobs queues pause --for 30m --reason x", "pause lacks an argument"),
        ("trellis-jobs queues pause SERVICE/TYPE --reason=x", None),
        ("trellis-jobs queues pause", None),
        ("trellis-jobs worker run app:service", "worker has too many arguments"),
    ],
)
def test_what_a_command_requires_is_said_too(command: str, why: str | None) -> None:
    assert complaint(command) == why


@pytest.mark.parametrize("page", OF_TODAY, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_that_is_shown_exists(page: Path) -> None:
    complaints = {each: complaint(each) for each in commands(page)}
    assert {each: why for each, why in complaints.items() if why} == {}


def test_every_command_that_the_console_shows_exists() -> None:
    shown = list(commands_of_console())
    assert "trellis-jobs worker app:service" in shown
    assert {each: why for each in shown if (why := complaint(each))} == {}
