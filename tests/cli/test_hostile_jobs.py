"""Every command on a real terminal, over jobs that try to take the terminal over.

An error with `ESC ] 0 ; pwned BEL`, OSC 52 and cursor movements went through `jobs list`, `get`,
`explain`, `events`, `tail`, `watch`, `logs`, `dlq list` and `show`, `keys list`, `workers list`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final

import orjson
import pytest

from tests.cli.forbidden import HOSTILE, forbidden_in, forbidden_in_styled, forbidden_on_screen
from tests.cli.hostile import IN_A_SUBJECT, Planted, beat, plant
from tests.cli.stage import Stage, stage
from tests.cli.terminal import on_a_terminal
from tests.support.facts import until
from tools.reference.cli_page import commands

APP: Final = "tests.cli.hostile:service"
PAYLOAD: Final = orjson.dumps({"words": HOSTILE}).decode()
BECAUSE: Final = ("--reason", HOSTILE, "--by", HOSTILE, "--yes")

# In this order: what is asked for first leaves the jobs as they are.
ENDING: Final[tuple[str, ...]] = (
    "jobs list",
    "jobs get {dead} --errors",
    "jobs get {done}",
    "jobs get {cancelled}",
    "jobs events {dead}",
    "jobs events {cancelled}",
    "jobs explain {dead}",
    "jobs logs {dead}",
    "jobs tail --since 1h --limit 9",
    "jobs watch {dead}",
    "dlq list",
    "dlq list --group",
    "dlq show {dead}",
    "keys list",
    "keys get hostile/keyed HOSTILE",
    "keys release hostile/keyed HOSTILE {waiting} BECAUSE",
    "workers list",
    "services",
    "queues pause hostile/speak --reason HOSTILE",
    "queues list",
    "queues list --at 1m",
    "queues history hostile/speak",
    "queues resume hostile/speak",
    "schedules put hostile/speak/often PAYLOAD --every 1h --by HOSTILE",
    "schedules pause hostile/speak/often --reason HOSTILE --by HOSTILE",
    "schedules list",
    "schedules get hostile/speak/often",
    "schedules next hostile/speak/often",
    "schedules trigger hostile/speak/often --by HOSTILE",
    "schedules resume hostile/speak/often --by HOSTILE",
    "schedules delete hostile/speak/often --by HOSTILE --yes",
    "doctor",
    "attention",
    "audit list",
    "jobs errors",
    "jobs suggest error pw",
    "contract diff server APP",
    "contract show APP",
    "infra plan --app APP",
    "infra check --app APP",
    "infra apply --app APP",
    "projection ignored",
    "projection status --db DB",
    "projection verify --db DB",
    "admin due --db DB",
    "jobs create hostile/speak PAYLOAD",
    "jobs reschedule {waiting} --in 1h BECAUSE",
    "jobs run-now {waiting} BECAUSE",
    "jobs cancel {waiting} BECAUSE",
    "jobs retry {dead} BECAUSE",
    "dlq replay --error pwned BECAUSE",
    "dlq dismiss --error pwned BECAUSE",
    "operations list",
    "operations get OPERATION",
    "operations stop OPERATION",
)
AS_JSON: Final = ("jobs list", "jobs get {dead}", "jobs events {dead}", "workers list")
LIVE: Final = ("top", "dev", "jobs list --watch")
WITHOUT_JOBS: Final = {
    "worker": "only logs, and its formatters have their own tests",
    "admin serve": "only logs: the stage runs it, and its log is looked at here",
    "projection rebuild": "counts messages",
    "credentials new": "makes keys",
    "permissions": "prints names from its own command line",
    "contract generate": "reads a file, and has its own tests",
    "console serve": "only logs, and its pages have their own tests",
    "jobs export": "writes JSON into a file",
    "jobs run-local": "needs a bundle, and has its own tests",
    **dict.fromkeys(("console password", "console token"), "print what they have made"),
    **dict.fromkeys(
        ("workers quiet", "workers resume", "workers drain", "workers terminate"),
        "change workers, and have their own tests",
    ),
}


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with stage(tmp_path_factory.mktemp("stage")) as made:
        yield made


@pytest.fixture(scope="module")
def planted(there: Stage) -> Planted:
    return asyncio.run(plant(there.url))


def is_tried(command: str) -> bool:
    return any(f"{line} ".startswith(f"{command} ") for line in (*ENDING, *LIVE))


def test_every_command_is_tried_here_or_named_with_a_reason() -> None:
    known = [name.removeprefix("trellis-jobs ") for name, _ in commands()]
    untried = {command for command in known if not is_tried(command)}
    assert untried == set(WITHOUT_JOBS)


def words_of(line: str, there: Stage, planted: Planted) -> list[str]:
    given = {"HOSTILE": [HOSTILE], "APP": [APP], "DB": [str(there.db)], "PAYLOAD": [PAYLOAD]}
    given["BECAUSE"] = list(BECAUSE)
    if "OPERATION" in line:
        given["OPERATION"] = [there.shell("operations", "list", "--json").json["entries"][0]["id"]]
    words = line.format(**planted.model_dump()).split(" ")
    return [each for word in words for each in given.get(word, [word])]


@pytest.mark.parametrize("line", ENDING)
def test_no_command_lets_a_job_speak_to_the_terminal(
    there: Stage, planted: Planted, line: str
) -> None:
    asyncio.run(beat(there.url))
    shown = there.at_terminal(*words_of(line, there, planted), columns=250)
    assert shown.code in (0, 1), shown.plain
    if "{dead}" in line and "BECAUSE" not in line:
        assert r"\x1b]0;pwned\x07" in shown.plain
    assert forbidden_on_screen(shown.out) == set(), shown.out


@pytest.mark.parametrize("line", AS_JSON)
def test_json_says_the_same_in_escapes(there: Stage, planted: Planted, line: str) -> None:
    asyncio.run(beat(there.url))

    def is_told() -> bool:
        ended = there.shell(*words_of(line, there, planted), "--json")
        assert forbidden_in(ended.out) == set()
        return HOSTILE in texts_in(ended.json)

    asyncio.run(until(is_told, "the same text is read from it"))


def texts_in(value: object) -> set[str]:
    match value:
        case str():
            return {value}
        case list():
            return set().union(*map(texts_in, value))
        case dict():
            return set().union(*map(texts_in, value.values()))
        case _:
            return set()


@pytest.mark.parametrize("line", ["top", "jobs list --watch"])
async def test_no_live_screen_lets_a_job_speak_to_the_terminal(
    there: Stage, planted: Planted, line: str
) -> None:
    with on_a_terminal(*line.split(), "--nats", there.url, columns=250) as (process, terminal):
        await until(lambda: "hostile" in terminal.text, "jobs are shown")
        process.terminate()
        await terminal.until_closed()
    assert forbidden_on_screen(terminal.text) == set()


async def test_dev_lets_no_app_and_no_job_speak_to_the_terminal(
    there: Stage, planted: Planted
) -> None:
    dev = ("dev", "--nats", there.url, "--app", APP, "--no-reload")
    with on_a_terminal(*dev, columns=250) as (process, terminal):
        await until(lambda: "speak" in terminal.text, "the app is up")
        there.shell("jobs", "create", "hostile/speak", PAYLOAD)
        await until(lambda: r"\x1b]0;pwned" in terminal.text, "what the job says is shown")
        process.terminate()
        await terminal.until_closed()
    assert forbidden_on_screen(terminal.text) == set()


def test_the_log_of_the_admin_runtime_has_no_escapes(there: Stage, planted: Planted) -> None:
    """Request ids went into it as they came."""
    printed = there.admin.printed
    assert IN_A_SUBJECT.encode("unicode_escape").decode() in printed
    assert forbidden_in_styled(printed) == set()
