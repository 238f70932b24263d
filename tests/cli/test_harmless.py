"""Whatever a job says, no terminal and no log file gets a control or an invisible character.

An error with `ESC ] 0 ; pwned BEL` set the title of an operator's terminal.
"""

from __future__ import annotations

import io
import json
import logging
import sys
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.table import Table
from rich.text import Text as RichText

from jobs_admin.cli.exit_codes import UsageError, print_traceback, report_error
from jobs_admin.cli.logs import JsonLines, TextLines
from jobs_admin.cli.render.columns import Columns, fit_table
from jobs_admin.cli.render.escape import harmless, harmless_json
from jobs_admin.cli.render.output import json_document, one_line, print_stderr, stderr_console
from jobs_admin.cli.render.text import Text
from tests.cli.forbidden import (
    HOSTILE,
    forbidden_in,
    forbidden_in_styled,
    forbidden_on_screen,
    is_forbidden,
)

EVERY_CHARACTER: Final = [chr(code) for code in range(sys.maxunicode + 1)]
FORBIDDEN: Final = [each for each in EVERY_CHARACTER if is_forbidden(each)]
hostile_text = st.text(st.one_of(st.sampled_from(FORBIDDEN), st.characters(), st.just("\x1b")))
storable_text = st.text(
    st.one_of(
        st.sampled_from([each for each in FORBIDDEN if not "\ud800" <= each <= "\udfff"]),
        st.characters(codec="utf-8"),
    )
)


class Screen(io.StringIO):
    """A terminal as far as rich can tell."""

    def isatty(self) -> bool:
        return True


@contextmanager
def screen(monkeypatch: pytest.MonkeyPatch) -> Iterator[Screen]:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "60")
    with redirect_stderr(Screen()) as shown:
        yield shown


def in_a_table(text: str) -> Table:
    columns = Columns(names=("key", "error"), flexible="error")
    return fit_table(columns, [{"key": text, "error": one_line(text)}], 60)


RENDERED: Final[dict[str, Callable[[str], RenderableType]]] = {
    "str": str,
    "text": lambda text: Text(text, "red"),
    "appended": lambda text: Text("x").append(text, "bold"),
    "assembled": lambda text: Text.assemble((text, "bold"), text),
    "rich's own text": lambda text: RichText(text, "red"),
    "table": in_a_table,
    "group": lambda text: Group(Text(text), Padding(text, 1)),
}


def test_every_dangerous_character_is_shown_as_an_escape_and_no_other() -> None:
    changed = {each for each in EVERY_CHARACTER if harmless(each) != each}
    assert set(FORBIDDEN) <= changed
    # Invisible ones that are no format characters, or that Unicode keeps room for.
    assert {unicodedata.category(each) for each in changed - set(FORBIDDEN)} <= {"Cn", "Mn"}
    assert forbidden_in("".join(map(harmless, changed))) == set()


def test_escapes_read_like_those_of_python() -> None:
    assert harmless("a\x1b[0m\x7f\u202e\U000e0041\ud800\r\n\tz") == (
        "a\\x1b[0m\\x7f\\u202e\\U000e0041\\ud800\\r\n\tz"
    )
    assert harmless("a\nb\tc", one_line=True) == "a\\nb\\tc"


@pytest.mark.parametrize("how", RENDERED)
def test_nothing_dangerous_is_drawn(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    @given(hostile_text)
    def check(text: str) -> None:
        shown.seek(0)
        shown.truncate()
        stderr_console().print(RENDERED[how](text))
        assert forbidden_in_styled(shown.getvalue()) == set()

    with screen(monkeypatch) as shown:
        check()


def test_what_is_made_visible_still_fits_its_column(monkeypatch: pytest.MonkeyPatch) -> None:
    with screen(monkeypatch) as shown:
        stderr_console().print(in_a_table("\x1b" * 300))
        lines = shown.getvalue().splitlines()
    assert len(lines) == 2
    assert r"\x1b\x1b" in lines[1]


def test_a_live_screen_shows_nothing_dangerous(monkeypatch: pytest.MonkeyPatch) -> None:
    with screen(monkeypatch) as shown:
        with Live(Text(HOSTILE), console=stderr_console(), screen=True) as live:
            live.update(in_a_table(HOSTILE), refresh=True)
        drawn = shown.getvalue()
    assert "pwned" in drawn
    assert forbidden_on_screen(drawn) == set()


@given(st.recursive(storable_text, lambda inner: st.dictionaries(storable_text, inner)))
def test_json_has_nothing_dangerous_and_means_the_same(value: object) -> None:
    printed = json_document({"value": value})
    assert forbidden_in(printed) == set()
    assert json.loads(printed) == {"value": value}


@given(storable_text)
def test_json_on_one_line_stays_on_one_line(text: str) -> None:
    printed = harmless_json(json.dumps(text, ensure_ascii=False))
    assert json.loads(printed) == text
    assert forbidden_in(printed) | ({"\n", "\t"} & set(printed)) == set()


@given(hostile_text)
def test_log_lines_have_nothing_dangerous(text: str) -> None:
    record = logging.makeLogRecord({"msg": "%s", "args": (text,), "request": text, "ids": [text]})
    try:
        raise RuntimeError(text)
    except RuntimeError:
        record.exc_info = sys.exc_info()
    assert forbidden_in_styled(TextLines(coloured=True).format(record)) == set()
    encoded = JsonLines().format(record)
    assert forbidden_in(encoded) == set()
    assert json.loads(encoded)["request"] == text


def test_a_message_of_two_lines_cannot_pass_for_two_records() -> None:
    record = logging.makeLogRecord({"msg": "one\n12:00:00.000 error   forged"})
    assert "\n    12:00:00.000 error   forged" in TextLines(coloured=False).format(record)


@given(hostile_text)
def test_words_about_the_command_itself_have_nothing_dangerous(text: str) -> None:
    with redirect_stderr(io.StringIO()) as told:
        print_stderr(text)
        report_error(UsageError(text))
        print_traceback(RuntimeError, RuntimeError(text), None)
    assert forbidden_in(told.getvalue()) == set()
