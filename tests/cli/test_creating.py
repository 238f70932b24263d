"""`trellis-jobs jobs create`: a job of any queue, without its service's code at hand."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from tests.cli import shop
from tests.cli.command import Command, running
from tests.cli.stage import Stage, stage
from trellis_jobs.contract.manifest import to_manifest
from trellis_jobs.model.states import JobState

GREET = ("jobs", "create", "shop/greet")
APP = ("--app", "tests.cli.shop:service")


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with stage(tmp_path_factory.mktemp("stage")) as made:
        yield made


@pytest.fixture(scope="module")
def worker(there: Stage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Command]:
    """It has told the server what its queues take."""
    folder = tmp_path_factory.mktemp("worker")
    with running(folder, "worker", "tests.cli.shop:service", "--nats", there.url) as working:
        asyncio.run(working.until_prints("worker started"))
        yield working


def test_what_a_queue_takes_is_known_from_the_server(there: Stage, worker: Command) -> None:
    ended = there.shell(*GREET, '"bob"', "--wait", "--json")
    assert ended.code == 0, ended.err
    told = ended.json
    assert (told["outcome"], told["service"], told["type"]) == ("accepted", "shop", "greet")
    assert (told["state"], told["result"], told["tries"]) == ("completed", "hello bob", 1)


def test_a_payload_that_does_not_fit_creates_nothing(there: Stage, worker: Command) -> None:
    ended = there.shell(*GREET, "17", "--id", "never-made")
    assert (ended.code, ended.out) == (1, "")
    assert (
        "the payload is not valid for queue 'greet': value: 17 is not of type 'string'" in ended.err
    )
    assert there.shell("jobs", "watch", "never-made").code == 3


def test_a_job_that_does_not_complete_is_exit_code_1(there: Stage, worker: Command) -> None:
    create = ("jobs", "create", "shop/nap")
    ended = there.shell(*create, "60", "--wait", "--timeout", "0.2s", "--id", "long-nap")
    assert ended.code == 4
    assert "did not end within 0.2 s" in ended.err
    assert there.shell("jobs", "cancel", "long-nap", "--yes").code == 0
    told = there.shell(*create, "60", "--wait", "--timeout", "0.2s", "--json")
    assert (told.code, told.json["outcome"]) == (4, "accepted"), "the job is there all the same"
    assert "state" not in told.json
    assert there.shell("jobs", "cancel", told.json["id"], "--yes").code == 0
    ended = there.shell(*create, "0", "--deadline", "2020-01-01T00:00:00Z", "--wait", "--json")
    assert (ended.code, ended.json["state"]) == (1, "expired")


def test_a_job_may_have_its_own_tries_and_timeout(there: Stage, worker: Command) -> None:
    create = ("jobs", "create", "shop/nap", "60", "--wait", "--json")
    ended = there.shell(*create, "--max-tries", "1", "--try-timeout", "0.2s")
    assert (ended.code, ended.json["state"], ended.json["tries"]) == (1, "dead", 1)
    assert ended.json["error"] == "timeout: timed out after 200 ms"
    shown = there.shell("jobs", "get", ended.json["id"]).out
    assert "timeout" in shown
    assert "200 ms, set for this job" in shown


def test_an_option_that_the_queue_refuses_creates_nothing(there: Stage, worker: Command) -> None:
    ended = there.shell(*GREET, '"bob"', "--max-tries", "0", "--id", "never-tried")
    assert ended.code == 1
    assert "max_tries must be at least 1" in ended.err
    assert there.shell("jobs", "watch", "never-tried").code == 3


def test_an_id_is_used_once(there: Stage, worker: Command) -> None:
    first = there.shell(*GREET, '"ann"', "--id", "the-one")
    assert (first.code, first.out) == (0, "created shop/greet the-one\n")
    second = there.shell(*GREET, '"ann"', "--id", "the-one")
    assert second.code == 1
    assert "the-one" in second.err


def test_an_id_that_exists_is_no_error_where_only_a_new_one_is_wanted(
    there: Stage, worker: Command
) -> None:
    """Cron on two hosts creates one job per tick, and neither host reports a failure."""
    tick = (*GREET, '"ann"', "--id", "tick-1", "--if-new")
    assert there.shell(*tick).out == "created shop/greet tick-1\n"
    again = there.shell(*tick)
    assert (again.code, again.out) == (0, "not created, already exists: shop/greet tick-1\n")
    told = there.shell(*tick, "--wait", "--json")
    assert (told.code, told.json["outcome"], told.json["state"]) == (0, "exists", "completed")
    assert there.shell(*GREET, '"ann"', "--if-new").code == 2


def test_the_payload_may_come_from_a_file_or_from_a_pipe(
    there: Stage, worker: Command, tmp_path: Path
) -> None:
    file = tmp_path / "payload.json"
    file.write_text('"from a file"', encoding="utf-8")
    ended = there.shell(*GREET, f"@{file}", "--wait", "--json")
    assert ended.json["result"] == "hello from a file"
    ended = there.shell(*GREET, "-", "--wait", "--json", stdin='"from a pipe"')
    assert ended.json["result"] == "hello from a pipe"


def test_at_a_terminal_it_is_watched_to_its_end(there: Stage, worker: Command) -> None:
    ended = there.at_terminal(*GREET, '"bob"', "--wait")
    assert ended.code == 0
    assert ended.plain.startswith("created shop/greet 0")
    assert '"hello bob"' in ended.plain


def test_in_a_pipe_its_events_are_told_and_its_result(there: Stage, worker: Command) -> None:
    ended = there.shell(*GREET, '"bob"', "--wait", "--timeout", "30")
    assert ended.code == 0, ended.err
    *_, last_event, result = ended.out.splitlines()
    assert last_event.split()[1] == "completed"
    assert result == '"hello bob"'
    watched = there.shell("jobs", "watch", ended.out.split()[2], "--timeout", "30s")
    assert watched.out.splitlines()[-1] == result


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("shop/greet", "bob"), 2, "a JSON string needs double quotes"),
        (("shop/greet", "@/no/such/file"), 2, "cannot read the payload"),
        (("greet", '"bob"'), 2, "not of the form service/type ╰"),
        (("shop/greet", '"bob"', "--deadline", "soon"), 2, "neither a duration"),
        (("shop/greet", '"bob"', "--timeout", "0s"), 2, "is not a duration"),
        (("shop/greet", '"bob"', "--timeout", "5s"), 2, "only with --wait"),
        (("shop/greet", '"bob"', *APP, "--contract", "README.md"), 2, "use one of them"),
        (("shop/nosuch", '"bob"'), 3, "queues: shop/greet, shop/nap, shop/shrug"),
        (("shop/unhandled", '"bob"'), 3, "use --app MODULE:SERVICE or --contract FILE"),
        (("other/greet", '"bob"', *APP), 3, "queues: shop/greet, shop/nap"),
    ],
)
def test_what_cannot_be_created_is_said(
    there: Stage, worker: Command, arguments: tuple[str, ...], code: int, words: str
) -> None:
    ended = there.shell("jobs", "create", *arguments)
    assert (ended.code, ended.out) == (code, "")
    assert words in " ".join(ended.err.replace("│", " ").split())


def test_a_queue_that_never_had_a_worker_is_known_from_code_or_a_manifest(
    there: Stage, worker: Command, tmp_path: Path
) -> None:
    create = ("jobs", "create", "shop/unhandled", '"x"', "--json")
    by_code = there.shell(*create, *APP)
    assert there.job(by_code.json["id"]).state is JobState.PENDING
    file = tmp_path / "manifest.json"
    file.write_bytes(orjson.dumps(to_manifest(shop.ShopJobs.contract)))
    by_manifest = there.shell(*create, "--contract", str(file))
    assert there.job(by_manifest.json["id"]).payload == "x"
    file.write_text('{"format": "another@v1"}', encoding="utf-8")
    refused = there.shell(*create, "--contract", str(file))
    assert (refused.code, refused.out) == (1, "")
    assert "not a manifest: format" in refused.err


def test_keys_let_in_as_they_do_for_the_service(there: Stage) -> None:
    """No worker runs them: the first waits for one, and no more than one may wait."""
    create = ("jobs", "create", "helpdesk/patient", "--app", "tests.cli.helpdesk:service", "--json")
    sync = '{"origin": "eu"}'
    outcomes = [there.shell(*create, sync) for _ in range(2)]
    assert (outcomes[0].code, outcomes[0].json["outcome"]) == (0, "accepted")
    assert outcomes[0].json["key"] == "eu"
    assert outcomes[1].code == 1
    told = outcomes[1].json
    assert (told["outcome"], told["reason"]) == ("rejected", "active-limit")
    assert told["existingJobId"] == outcomes[0].json["id"]
    coalescing = (
        "jobs",
        "create",
        "helpdesk/merging",
        "--app",
        "tests.cli.helpdesk:service",
        "--json",
    )
    first, second = (there.shell(*coalescing, sync).json for _ in range(2))
    assert (second["outcome"], second["id"]) == ("coalesced", first["id"])
    replacing = (
        "jobs",
        "create",
        "helpdesk/newest",
        "--app",
        "tests.cli.helpdesk:service",
        "--json",
    )
    first, second = (there.shell(*replacing, sync).json for _ in range(2))
    assert (second["outcome"], second["replacedJobId"]) == ("replaced", first["id"])


def test_without_a_server_it_ends_soon_with_4(there: Stage) -> None:
    ended = there.shell(*GREET, '"bob"', "--nats", "nats://127.0.0.1:1")
    assert ended.code == 4
    assert "no NATS server answers" in ended.err
