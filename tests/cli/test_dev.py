"""`trellis-jobs dev`, run for real: with and without a terminal, and how it ends."""

from __future__ import annotations

import re
import shlex
import signal
import socket
from pathlib import Path

import pytest

from jobs_admin.api.client import AdminClient
from jobs_admin.cli.dev.environment import DEFAULT_PORT
from tests.cli.command import running
from tests.cli.processes import children, is_alive
from tests.cli.terminal import on_a_terminal
from tests.support.facts import until
from trellis_jobs import Service
from trellis_jobs.demo import DemoJobs, Email
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.errors import ServiceMissing

ALTERNATE_SCREEN = "\x1b[?1049h"
ORDINARY_SCREEN = "\x1b[?1049l"
CURSOR = "\x1b[?25h"
FAST = ("--rate", "20", "--port", "0")
IN_USE = f"  # {DEFAULT_PORT} in use"
ULID = r"[0-9A-HJKMNP-TV-Z]{26}"


async def test_without_a_terminal_it_prints_events_and_ends_with_0(tmp_path: Path) -> None:
    with running(tmp_path, "dev", *FAST) as dev:
        for words in ("created", "started", "progress", "retry", "completed", "expired"):
            await dev.until_prints(words)
        dev.send(signal.SIGINT)
        assert await dev.until_exit() == 0
        assert "\x1b" not in dev.printed
        assert "Traceback" not in dev.printed
        assert "stopped after" in dev.printed.splitlines()[-1]
        assert dev.printed.startswith("trellis-jobs dev   nats://127.0.0.1:")


async def test_its_jobs_end_in_every_way_a_job_can(tmp_path: Path) -> None:
    with running(tmp_path, "dev", *FAST) as dev:
        for end in ("completed", "failed", "dead", "cancelled", "expired"):
            await dev.until_prints(f"{end} ")


async def test_it_has_delayed_jobs_and_a_schedule(tmp_path: Path) -> None:
    with running(tmp_path, "dev", *FAST) as dev:
        await dev.until_prints("How do you like your order?")
        await dev.until_prints('"day": "yesterday"')


async def test_colour_is_there_for_who_asks(tmp_path: Path) -> None:
    with running(tmp_path, "dev", *FAST, env={"FORCE_COLOR": "1", "TERM": "xterm"}) as dev:
        await dev.until_prints("\x1b[32mcompleted")


async def test_jobs_that_run_are_handed_back_at_the_end(tmp_path: Path) -> None:
    with running(tmp_path, "dev", *FAST) as dev:
        await dev.until_prints("reading the orders")
        dev.send(signal.SIGINT)
        assert await dev.until_exit() == 0
        summary = dev.printed.splitlines()[-1]
        assert " retry" in summary
        assert " active" not in summary
        assert "shutdown: the worker shut down before the job was done" in dev.printed


async def test_a_running_server_is_used_and_left_running(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    with running(tmp_path, "dev", "--rate", "20", env={"NATS_URL": server.url}) as dev:
        await dev.until_prints("completed")
        dev.send(signal.SIGTERM)
        assert await dev.until_exit() == 0
        assert server.url in dev.printed
    async with Service(DemoJobs).connect(server.url, workers=False) as demo:
        await demo.jobs.send_email.create(Email(to="ada@example.com", subject="still here"))


async def test_a_server_elsewhere_must_be_named_on_the_command_line(tmp_path: Path) -> None:
    """It would make streams and jobs on a server that a variable names for other commands."""
    elsewhere = {"NATS_URL": "nats://ann:secret@prod.invalid:4222"}
    with running(tmp_path, "dev", env=elsewhere) as dev:
        assert await dev.until_exit() == 2
        assert "prod.invalid:4222" in dev.printed
        assert "Use --nats or --context if you want that" in dev.printed
        assert "secret" not in dev.printed
    with running(tmp_path, "dev", "--nats", elsewhere["NATS_URL"], env=elsewhere) as meant:
        assert await meant.until_exit() == 4


async def test_jobs_of_before_are_known_when_the_data_are_kept(tmp_path: Path) -> None:
    data = ("--data", str(tmp_path / "data"))
    with running(tmp_path, "dev", *FAST, *data) as first:
        await first.until_prints("completed")
        first.send(signal.SIGINT)
        assert await first.until_exit() == 0
        before = _jobs_in_all(first.printed)
    with running(tmp_path, "dev", *FAST, *data) as second:
        await second.until_prints("completed")
        second.send(signal.SIGINT)
        assert await second.until_exit() == 0
        assert _jobs_in_all(second.printed) > before


async def test_nothing_is_left_when_it_is_killed(tmp_path: Path) -> None:
    with running(tmp_path, "dev", *FAST) as dev:
        await dev.until_prints("completed")
        pids = children(dev.process.pid)
        assert len(pids) == 2, "a server, and a worker"
        dev.send(signal.SIGKILL)
        await until(lambda: not any(map(is_alive, pids)), "its server and its worker end")


async def test_a_data_folder_and_a_running_server_exclude_each_other(
    tmp_path: Path,
) -> None:
    with running(tmp_path, "dev", "--data", str(tmp_path), "--nats", "nats://nowhere") as dev:
        assert await dev.until_exit() == 2
        assert "Traceback" not in dev.printed


async def test_a_server_that_does_not_answer_is_said_in_one_line(tmp_path: Path) -> None:
    with running(tmp_path, "dev", "--nats", "nats://127.0.0.1:1") as dev:
        assert await dev.until_exit() == 4
        assert "error: no NATS server answers" in dev.printed
        assert "dev starts an embedded server" in dev.printed
        assert "Traceback" not in dev.printed


async def test_what_it_shows_is_what_other_commands_take(tmp_path: Path) -> None:
    with running(tmp_path, "dev", *FAST) as dev:
        await dev.until_prints(" completed ")
        url, hint = dev.printed.split()[2], dev.printed.splitlines()[1]
        assert hint == f"export NATS_URL={url} && trellis-jobs jobs list"
        [job_id] = re.findall(rf"({ULID})  completed ", dev.printed)[:1]
        async with AdminClient.connect(url) as admin:
            assert (await admin.get(job_id)).id == job_id


@pytest.mark.parametrize("columns", [80, 130])
async def test_ids_on_the_screen_are_whole(columns: int) -> None:
    with on_a_terminal("dev", *FAST, columns=columns) as (_, screen):
        row = re.compile(rf"^(resize-image|send-email) +{ULID}  (completed|active|retry)", re.M)
        await until(lambda: row.search(screen.plain_text), "a job with its whole id")


async def test_the_usual_port_is_used_if_it_is_free_else_another(tmp_path: Path) -> None:
    """Another process on this machine may have it, or take it now: both are fine."""
    with running(tmp_path, "dev", "--no-demo") as dev:
        await dev.until_prints("trellis-jobs jobs list")
        has_usual = f"nats://127.0.0.1:{DEFAULT_PORT} " in dev.printed
        assert has_usual or IN_USE in dev.printed
        second = tmp_path / "second"
        second.mkdir()
        with running(second, "dev", "--no-demo") as other:
            await other.until_prints("trellis-jobs jobs list")
            hints = [line for line in other.printed.splitlines() if IN_USE in line]
    assert hints or not has_usual
    for hint in hints:
        assert len(hint) <= 80
        assert shlex.split(hint, comments=True)[-3:] == ["trellis-jobs", "jobs", "list"]


async def test_a_port_that_is_taken_is_said_in_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        with running(tmp_path, "dev", "--port", port) as dev:
            assert await dev.until_exit() == 1
    assert dev.printed.startswith(f"error: port {port} is in use"), dev.printed


async def test_without_the_demo_it_waits_for_services(tmp_path: Path) -> None:
    with running(tmp_path, "dev", "--no-demo", "--port", "0") as dev:
        await dev.until_prints("jobs list")
        async with (
            Service(DemoJobs).connect(dev.printed.split()[2], workers=False) as demo,
            AdminClient.connect(dev.printed.split()[2]) as admin,
        ):
            ref = await demo.jobs.send_email.create(Email(to="ada@example.com", subject="hi"))
            await dev.until_prints(f"demo/send-email   {ref.id}  created")
            assert (await admin.explain(ref.id)).because == "no-worker"
        assert len(children(dev.process.pid)) == 1, "a server, and no worker"


async def test_an_admin_runtime_that_is_there_is_enough(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    with running(tmp_path, "dev", "--no-demo", "--nats", server.url) as first:
        await first.until_prints("jobs list")
        second = tmp_path / "second"
        second.mkdir()
        with running(second, "dev", "--no-demo", "--nats", server.url) as other:
            await other.until_prints("jobs list")
            first.send(signal.SIGINT)
            assert await first.until_exit() == 0
            async with AdminClient.connect(server.url) as admin:
                with pytest.raises(ServiceMissing):
                    await admin.health()


async def test_keys_for_another_server_are_not_shown_to_its_own(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("no seed at all")
    with running(tmp_path, "dev", *FAST, env={"NATS_NKEY": str(key)}) as dev:
        await dev.until_prints(" completed ")


async def test_it_works_in_a_plain_locale(tmp_path: Path) -> None:
    with running(tmp_path, "dev", *FAST, env={"LC_ALL": "C", "LANG": "C"}) as dev:
        await dev.until_prints("jürgen@example.com")
        await dev.until_prints("Unroutable: the mail server accepts ASCII addresses only")
        assert "UnicodeEncodeError" not in dev.printed


async def test_on_a_terminal_it_shows_a_screen_and_gives_the_terminal_back() -> None:
    with on_a_terminal("dev", *FAST) as (dev, screen):
        shown = (ALTERNATE_SCREEN, "pending", "nightly-report", "completed", "Ctrl-C stops")
        await until(lambda: all(words in screen.text for words in shown), "the screen is there")
        dev.send_signal(signal.SIGINT)
        await until(lambda: dev.poll() is not None, "it exits")
        assert dev.returncode == 0
        await screen.until_closed()
        ending = screen.text[screen.text.rindex(ORDINARY_SCREEN) :]
        assert CURSOR in screen.text[screen.text.rindex("Ctrl-C stops") :]
        assert "stopped after" in ending
        assert "Traceback" not in screen.text


def _jobs_in_all(printed: str) -> int:
    found = re.search(r"stopped after (\d+) jobs?", printed)
    assert found, printed
    return int(found[1])
