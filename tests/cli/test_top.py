"""`trellis-jobs top`: a live view of all job types."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from rich.console import Console

from jobs_admin.api.views.queues import QueueView
from jobs_admin.api.views.services import TypeStats
from jobs_admin.cli.top.frame import frame
from jobs_admin.cli.top.snapshot import TopSnapshot, rank
from jobs_admin.queues.state import ListedQueue, ProjectedQueues, queue_views
from tests.admin.admin_lab import daemon_at
from tests.cli.shell import shell
from tests.cli.stage import Place, Stage, stage
from tests.cli.terminal import on_a_terminal
from tests.cli.test_queues import NOW, _start_once, consumer
from tests.support.facts import until
from trellis_jobs.embedded import HOST, EmbeddedServer
from trellis_jobs.jetstream.work.queues import ServerQueue


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with stage(tmp_path_factory.mktemp("stage")) as made:
        asyncio.run(_start_once(made.url))
        yield made


def test_in_a_pipe_it_is_one_look(there: Stage) -> None:
    there.dead("the bank is away")
    ended = there.shell("top")
    assert (ended.code, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert lines[1].startswith("admin runtime ok")
    assert lines[2].split() == ["2", "pending", "1", "dead"]
    [single] = [line.split() for line in lines if line.startswith("lab/single")]
    assert single[1:5] == ["0", "0", "0", "1"]


def test_as_json_too(there: Stage) -> None:
    ended = there.shell("top", "--json")
    types = {each["type"]: each for each in ended.json["types"]}
    assert (types["work"]["depth"], types["work"]["states"]["pending"]) == (2, 2)
    assert "workers" in types["work"]
    assert ended.json["health"]["status"] == "ok"


@pytest.mark.parametrize("ending", ["q", "SIGINT", "SIGTERM"])
async def test_on_a_terminal_it_goes_on_until_told(there: Stage, ending: str) -> None:
    with on_a_terminal("top", "--nats", there.url, columns=80) as (process, terminal):
        await until(lambda: terminal.text.count("q quits") > 1, "it is drawn again")
        if ending == "q":
            os.write(terminal._master, b"xq")
        else:
            process.send_signal(signal.Signals[ending])
        await until(lambda: process.poll() is not None, "it ends")
        await terminal.until_closed()
        assert process.returncode == 0
        assert "lab/work" in terminal.plain_text
        assert "Traceback" not in terminal.plain_text


def test_without_an_admin_runtime_the_server_alone_tells(server: EmbeddedServer) -> None:
    asyncio.run(_start_once(server.url))
    ended = Place(server.url).shell("top")
    assert ended.code == 0
    assert "no job counts: no admin runtime answers" in ended.out
    [work] = [line.split() for line in ended.out.splitlines() if line.startswith("lab/work")]
    assert work[1] == "2"


RIGHTS = {"publish": ["rpc.v1.Jobs.>"], "subscribe": ["_INBOX.>"]}
CONFIG = f"""
authorization {{ users: [
    {{ user: owner, password: pw }}
    {{ user: operator, password: pw, permissions: {json.dumps(RIGHTS)} }}
] }}
"""


async def test_an_operator_without_rights_on_streams_sees_the_numbers_of_jobs(
    tmp_path: Path,
) -> None:
    with EmbeddedServer.start(config=CONFIG) as server:
        owner, operator = (
            f"nats://{name}:pw@{HOST}:{server.port}" for name in ("owner", "operator")
        )
        await _start_once(owner)
        async with daemon_at(owner, tmp_path / "jobs.sqlite"):
            ended = await asyncio.to_thread(Place(operator).shell, "top", "--json")
        refused = await asyncio.to_thread(Place(operator).shell, "top")
    assert ended.code == 0, ended.err
    types = {each["type"]: each for each in ended.json["types"]}
    assert (types["work"]["depth"], types["work"]["states"]) == (2, {"pending": 2})
    assert refused.code == 4
    assert "no admin runtime answers rpc.v1.Jobs.ListQueues" in refused.err


def test_without_a_server_it_ends_with_4() -> None:
    ended = shell("top", "--nats", "nats://127.0.0.1:1")
    assert (ended.code, ended.out) == (4, "")


def sight_of(count: int) -> TopSnapshot:
    old = NOW - timedelta(hours=2)
    listed = [
        ListedQueue(ServerQueue("lab", f"t{n:03}", consumer(pending=n)), old if n == 7 else None)
        for n in range(count)
    ]
    types = tuple(
        TypeStats(service="lab", type=f"t{n:03}", states={"dead": 1}, per_minute={"retry": 2})
        for n in range(count)
    )
    workers = {f"lab/t{n:03}": 1 for n in range(count)}
    made = queue_views(listed, ProjectedQueues(types, workers))
    return TopSnapshot(NOW, tuple(made), None, "no answer")


def drawn(sight: TopSnapshot, *, width: int, height: int) -> list[str]:
    shown = Console(width=width, height=height, force_terminal=True, color_system=None)
    with shown.capture() as captured:
        shown.print(frame(sight, "top", shown))
    return captured.get().splitlines()


@pytest.mark.parametrize("height", [8, 24, 60])
@pytest.mark.parametrize("width", [40, 80, 130])
def test_a_frame_fits_any_terminal_and_shows_what_has_most_to_do(width: int, height: int) -> None:
    lines = drawn(sight_of(100), width=width, height=height)
    assert len(lines) <= height
    assert all(len(line) <= width for line in lines)
    assert any(line.startswith("lab/t099 ") for line in lines)
    assert lines[-1].startswith("… and ")
    assert "less urgent" in lines[-1]


def test_a_frame_tells_ages_errors_and_the_dead() -> None:
    sight = sight_of(8)
    assert not any("less urgent" in line for line in drawn(sight, width=130, height=40))
    [line] = [each for each in drawn(sight, width=130, height=40) if each.startswith("lab/t007")]
    assert line.split() == ["lab/t007", "0", "0", "0", "1", "7", "2", "h", "0", "0", "2", "1"]
    assert "no answer" in drawn(sight, width=130, height=40)[1]
    assert replace(sight, queues=()).to_json() == {"types": [], "trouble": "no answer"}


def test_what_burns_is_never_left_out_for_what_is_merely_busy() -> None:
    burning = (
        TypeStats(service="lab", type="alone", states={"pending": 1}, per_minute={}),
        TypeStats(service="lab", type="fails", states={}, per_minute={"retry": 3}),
        TypeStats(service="lab", type="dead", states={"dead": 4}, per_minute={}),
    )
    busy = tuple(
        TypeStats(service="lab", type=f"busy{n}", states={"active": 900}, per_minute={})
        for n in range(9)
    )
    queues = queue_views([], ProjectedQueues((*burning, *busy), {}))

    def order(queue: QueueView) -> tuple[tuple[float, ...], str]:
        return rank(queue), queue.name

    assert [each.name for each in sorted(queues, key=order)][:4] == [
        "lab/alone",
        "lab/fails",
        "lab/dead",
        "lab/busy0",
    ]
    lines = drawn(TopSnapshot(NOW, tuple(queues), None, None), width=80, height=9)
    assert [line.split()[0] for line in lines if line.startswith("lab/")] == [
        "lab/alone",
        "lab/dead",
        "lab/fails",
    ]
