"""What keeps a worker from starting is printed in one line, with an exit code for scripts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command import environment
from tests.cli.shell import run_to_end
from tests.support.fork_server import ROOT
from trellis_jobs.contract.topology import LOG
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.client.connection import Connection
from trellis_jobs.model import subjects

NOWHERE = "nats://127.0.0.1:1"


def refused(*arguments: str, cwd: Path = ROOT) -> tuple[int, str]:
    ended = run_to_end("worker", *arguments, cwd=cwd, env=environment())
    assert ended.out == ""
    return ended.code, ended.err


@pytest.mark.parametrize(
    ("named", "words"),
    [
        ("tests.cli.nosuch:service", "no module named 'tests.cli.nosuch'"),
        ("tests.cli.shop:nosuch", "module 'tests.cli.shop' has no attribute 'nosuch'"),
        ("tests.cli.shop:price", "tests.cli.shop:price is a int, not a trellis_jobs.Service"),
        ("tests.cli.shop:silent", "service 'shop' has no handlers"),
    ],
)
def test_a_service_that_cannot_be_worked_for_is_named(named: str, words: str) -> None:
    code, printed = refused(named, "--nats", NOWHERE)
    assert code == 1
    assert printed.startswith("error: ")
    assert words in printed
    assert printed.count("\n") == 1


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("import nosuch_library\n", "ModuleNotFoundError: No module named 'nosuch_library' ({}:1)"),
        ("\nprice = 1 / 0\n", "ZeroDivisionError: division by zero ({}:2)"),
        ("\n\ndef service(:\n", "SyntaxError: invalid syntax ({}:3)"),
    ],
)
def test_a_module_that_breaks_says_where(tmp_path: Path, source: str, words: str) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text(source)
    code, printed = refused("broken:service", cwd=tmp_path)
    assert code == 1
    assert printed.endswith(f": {words.format(broken)}\n")
    assert printed.count("\n") == 1


@pytest.mark.parametrize(
    ("queue", "words"),
    [
        ("nosuch", "'shop' has no queue 'nosuch'; its queues are greet, nap, shrug, unhandled"),
        ("unhandled", "queue 'unhandled' has no handler"),
    ],
)
def test_a_queue_that_cannot_be_worked_on_is_named(queue: str, words: str) -> None:
    code, printed = refused(
        "tests.cli.shop:service", "--nats", NOWHERE, "--queues", f"greet,{queue}"
    )
    assert code == 1
    assert words in printed
    assert printed.count("\n") == 1


@pytest.mark.parametrize(
    ("queues", "words"),
    [
        ("greet=0", "the weight of queue 'greet' must be a whole number of at least 1, is '0'"),
        ("greet=-1", "at least 1, is '-1'"),
        ("greet=many", "at least 1, is 'many'"),
        ("greet=", "at least 1, is ''"),
        ("greet=2,nap", "queue 'nap' has no weight: give one to every queue, or to none"),
        ("greet=2,greet=3", "queue 'greet' is named twice"),
    ],
)
def test_a_weight_that_is_none_is_a_wrong_command_line(queues: str, words: str) -> None:
    arguments = ("tests.cli.shop:service", "--total-concurrency", "2", "--queues", queues)
    code, said = refused(*arguments, "--nats", NOWHERE)
    assert code == 2
    assert words in " ".join(said.replace("│", " ").split())


@pytest.mark.parametrize(
    ("queues", "words"),
    [
        ("greet=2,nosuch=1", "'shop' has no queue 'nosuch'"),
        ("unhandled=1", "queue 'unhandled' has no handler"),
    ],
)
def test_a_weight_of_a_queue_that_cannot_be_worked_on_is_refused(queues: str, words: str) -> None:
    arguments = ("tests.cli.shop:service", "--total-concurrency", "2", "--queues", queues)
    code, said = refused(*arguments, "--nats", NOWHERE)
    assert code == 1
    assert words in said


def test_weights_without_a_shared_limit_are_refused() -> None:
    arguments = ("tests.cli.shop:service", "--queues", "greet=2,nap=1", "--nats", NOWHERE)
    code, said = refused(*arguments)
    assert code == 1
    assert "set total_concurrency too (--total-concurrency)" in said


def test_a_server_that_does_not_answer_has_an_exit_code_of_its_own() -> None:
    code, printed = refused("tests.cli.shop:service", "--nats", NOWHERE, "--connect-timeout", "0")
    assert code == 4
    assert f"error: no NATS server answers at {NOWHERE}" in printed
    assert "Traceback" not in printed


async def test_infrastructure_that_we_must_not_change_is_described(server: EmbeddedServer) -> None:
    connection = await Connection.open(server.url, name="an operator with other ideas")
    wrong = {"name": LOG, "subjects": [subjects.ALL_EVENTS], "retention": "interest"}
    await api.request(connection, f"STREAM.CREATE.{LOG}", wrong)
    await connection.close()
    code, printed = refused("tests.cli.shop:service", "--nats", server.url)
    assert code == 1
    assert f"error: stream {LOG} exists with settings that cannot be changed" in printed
    assert "retention should be 'limits', is 'interest'" in printed
    assert "Traceback" not in printed


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("tests.cli.shop",),
        ("tests.cli.shop:service", "--concurrency", "0"),
        ("tests.cli.shop:service", "--total-concurrency", "0"),
        ("tests.cli.shop:service", "--total-concurrency", "many"),
        ("tests.cli.shop:service", "--grace", "-1"),
        ("tests.cli.shop:service", "--log-format", "xml"),
        ("tests.cli.shop:service", "--creds", "nosuch.creds"),
        ("tests.cli.shop:service", "--nosuch"),
    ],
)
def test_a_wrong_command_line_ends_with_2(arguments: tuple[str, ...]) -> None:
    code, printed = refused(*arguments)
    assert code == 2
    assert "Traceback" not in printed
