"""A job is exported, shown without a server, and its handler is run on this machine."""

from __future__ import annotations

import asyncio
import re
import signal
import stat
from collections.abc import Iterator
from pathlib import Path

import httpx
import orjson
import pytest

from tests.cli.bank import PIN
from tests.cli.command import running
from tests.cli.shell import Ended, shell
from tests.cli.stage import Stage, stage

APP = ("--app", "tests.cli.bank:service")
# A server that nothing answers at: bundles need none.
NOWHERE = {"NATS_URL": "nats://127.0.0.1:1"}


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with stage(tmp_path_factory.mktemp("stage")) as made:
        folder = tmp_path_factory.mktemp("worker")
        with running(folder, "worker", "tests.cli.bank:service", "--nats", made.url) as working:
            asyncio.run(working.until_prints("worker started"))
            yield made


@pytest.fixture(scope="module")
def dead(there: Stage) -> str:
    """A job that died of its second try, created by an operator."""
    charge = f'{{"customer": "acme", "cents": 5, "pin": "{PIN}"}}'
    create = ("jobs", "create", "bank/charge", charge, "--id", "dead-1", "--wait", "--json")
    ended = there.shell(*create, "--by", "ann", "--reason", "a call")
    assert (ended.code, ended.json["state"], ended.json["tries"]) == (1, "dead", 2)
    return "dead-1"


@pytest.fixture(scope="module")
def bundle(there: Stage, dead: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("bundles") / "job.bundle"
    exported = there.shell("jobs", "export", dead)
    assert (exported.code, exported.err) == (0, "")
    file.write_text(exported.out, encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def revealed(there: Stage, dead: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("bundles") / "revealed.bundle"
    exported = there.shell("jobs", "export", dead, "--reveal", "--output", str(file))
    assert (exported.code, exported.out) == (0, "")
    return file


def offline(*arguments: str, bank_is_up: bool = False, stdin: str = "") -> Ended:
    up = {"BANK_IS_UP": "1"} if bank_is_up else {}
    return shell(*arguments, stdin=stdin, env={**NOWHERE, **up})


def test_a_bundle_is_shown_as_the_admin_runtime_shows_the_job(
    there: Stage, dead: str, bundle: Path
) -> None:
    for command in (("jobs", "get"), ("jobs", "explain")):
        online = there.shell(*command, dead, "--json").json
        assert offline(*command, "--bundle", str(bundle), "--json").json == online
    online = there.shell("jobs", "events", dead, "--json").json
    shown = offline("jobs", "events", "--bundle", str(bundle), "--json").json
    assert shown["entries"] == online["entries"]
    assert shown["between"] == online["between"]


def test_a_bundle_is_shown_to_people(bundle: Path) -> None:
    shown = offline("jobs", "get", "--bundle", str(bundle), "--errors").out
    assert "bank/charge  dead" in shown
    assert "state at" in shown
    assert "by ann: a call" in shown
    assert "503 for acme" in shown
    assert (
        "It is dead after 2 of 2 tries" in offline("jobs", "explain", "--bundle", str(bundle)).out
    )
    events = offline("jobs", "events", "--bundle", str(bundle)).out
    assert [line.split()[1] for line in events.splitlines() if "created" in line] == ["created"]


async def test_a_bundle_is_shown_in_a_browser_without_a_server(
    bundle: Path, tmp_path: Path
) -> None:
    serve = ("console", "serve", "--bundle", str(bundle), "--port", "0")
    with running(tmp_path, *serve, env=NOWHERE) as console:
        await console.until_prints("the console is at ")
        [address] = re.findall(r"http://\S+", console.printed)
        async with httpx.AsyncClient(base_url=address, follow_redirects=True) as web:
            page = await web.get("/")
        assert page.status_code == 200
        assert "/jobs/bank/charge/dead-1" in page.text
        assert PIN not in page.text
        console.send(signal.SIGTERM)
        assert await console.until_exit() == 0


def test_bundles_of_the_same_job_are_not_served(bundle: Path) -> None:
    ended = offline("console", "serve", "--bundle", str(bundle), "--bundle", str(bundle))
    assert ended.code == 1
    assert "two of the bundles have the same job" in ended.err


def test_a_bundle_hides_secrets_unless_they_are_revealed(bundle: Path, revealed: Path) -> None:
    assert PIN not in bundle.read_text()
    hidden = offline("jobs", "get", "--bundle", str(bundle), "--secrets")
    assert (hidden.code, PIN in hidden.out) == (1, False)
    assert "export the job with" in hidden.err
    assert PIN in revealed.read_text()
    assert stat.S_IMODE(revealed.stat().st_mode) == 0o600
    assert PIN not in offline("jobs", "get", "--bundle", str(revealed)).out
    assert PIN not in offline("jobs", "events", "--bundle", str(revealed), "--raw").out
    assert PIN in offline("jobs", "get", "--bundle", str(revealed), "--secrets").out


def test_a_bundle_has_the_contract_and_who_exported_it(bundle: Path) -> None:
    content = orjson.loads(bundle.read_bytes())
    assert content["format"] == "trellis-jobs.bundle@v1"
    assert (content["service"], content["type"], content["id"]) == ("bank", "charge", "dead-1")
    assert content["contract"]["payload"]["secrets"] == ["/pin"]
    assert content["explanation"]["because"] == "out-of-tries"
    assert not content["revealed"]


def test_the_handler_of_a_bundled_job_fails_here_as_it_did_there(revealed: Path) -> None:
    ended = offline("jobs", "run-local", str(revealed), *APP)
    assert ended.code == 1
    lines = ended.out.splitlines()
    assert "info     asking the bank about acme" in lines[0]
    assert lines[1].strip() == "progress 1/2 ask"
    assert lines[2].startswith("here      try 2 failed after")
    assert lines[2].endswith("BankDown: 503 for acme")
    assert lines[3].startswith("recorded  try 2 failed after")
    assert "version 1.4.2" in lines[3]
    assert lines[4].startswith("same")


def test_the_difference_to_the_recorded_outcome_is_shown(there: Stage, revealed: Path) -> None:
    before = there.shell("jobs", "events", "dead-1", "--json").json["entries"]
    command = ("jobs", "run-local", str(revealed), *APP, "--try", "1")
    ended = offline(*command, bank_is_up=True)
    assert ended.code == 0, ended.err
    assert "here      try 1 completed" in ended.out
    assert '"dead-1 took 5 with 9 digits"' in ended.out, "with its own id and secret"
    assert "differs   the recorded try failed, and this one completed" in ended.out
    told = offline(*command, "--json", bank_is_up=True).json
    assert (told["try"], told["outcome"]["event"]) == (1, "completed")
    assert told["recorded"]["error"] == {"type": "BankDown", "message": "503 for acme"}
    assert told["logs"] == [{"level": "info", "message": "asking the bank about acme"}]
    after = there.shell("jobs", "events", "dead-1", "--json").json["entries"]
    assert after == before, "nothing was written"


def test_a_hidden_secret_must_be_given(bundle: Path) -> None:
    command = ("jobs", "run-local", str(bundle), *APP)
    missing = offline(*command)
    assert missing.code == 2
    assert "--secret '/pin=…'" in missing.err
    ended = offline(*command, "--secret", "/pin=1234", bank_is_up=True)
    assert (ended.code, "with 4 digits" in ended.out) == (0, True)
    wrong = offline(*command, "--secret", "/nose=1234")
    assert (wrong.code, "1234" in wrong.err) == (2, False)


def test_the_debugger_is_entered_where_the_exception_was_raised(revealed: Path) -> None:
    command = ("jobs", "run-local", str(revealed), *APP, "--pdb")
    ended = offline(*command, stdin="p job.payload.customer\nq\n")
    assert "(Pdb) 'acme'" in ended.out
    assert ended.code == 1


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--app", "tests.cli.shop:service"), 2, "is the service 'shop'"),
        (("--app", "tests.cli.nosuch:service"), 1, "no module named"),
        ((*APP, "--try", "3"), 2, "the job has 2 tries"),
        ((*APP, "--secret", "pin"), 2, "use POINTER=VALUE"),
    ],
)
def test_what_cannot_be_run_is_said(
    revealed: Path, arguments: tuple[str, ...], code: int, words: str
) -> None:
    ended = offline("jobs", "run-local", str(revealed), *arguments)
    assert (ended.code, ended.out) == (code, "")
    assert words in " ".join(ended.err.replace("│", " ").split())


@pytest.mark.parametrize("command", ["get", "events", "explain"])
def test_a_file_that_is_not_a_bundle_is_refused(tmp_path: Path, command: str) -> None:
    file = tmp_path / "job.bundle"
    file.write_text("{}", encoding="utf-8")
    ended = offline("jobs", command, "--bundle", str(file))
    assert (ended.code, ended.out) == (1, "")
    assert "the file is not a bundle" in ended.err
    assert offline("jobs", command).code == 2
    assert offline("jobs", command, "some-id", "--bundle", str(file)).code == 1


def test_without_an_admin_runtime_the_log_is_exported(there: Stage, dead: str) -> None:
    there.admin.send(signal.SIGSTOP)
    try:
        ended = there.shell("jobs", "export", dead, "--timeout", "0.2")
    finally:
        there.admin.send(signal.SIGCONT)
    assert ended.code == 0
    assert "Reading the log instead" in ended.err
    content = orjson.loads(ended.out)
    assert content["explanation"]["because"] == "out-of-tries", (
        "the end of a job needs no other facts"
    )
    assert content["contract"]["type"] == "charge"


def test_a_clone_takes_the_payload_and_needs_its_secrets_again(there: Stage, dead: str) -> None:
    create = ("jobs", "create", "--like", dead, "--json")
    hidden = there.shell(*create)
    assert (hidden.code, hidden.out) == (2, "")
    assert "--secret '/pin=…'" in hidden.err
    made = there.shell(*create, "--secret", "/pin=2468", "--by", "bob")
    assert (made.code, made.json["type"]) == (0, "charge")
    clone = there.job(made.json["id"])
    assert clone.payload == {"customer": "acme", "cents": 5, "pin": "[secret]"}
    assert clone.created_by == "bob"
    changed = there.shell(*create, "bank/charge", '{"cents": 7, "pin": "1"}')
    assert changed.code == 0, changed.err
    payload = there.job(changed.json["id"]).payload
    assert isinstance(payload, dict)
    assert payload["cents"] == 7
    other = there.shell("jobs", "create", "bank/sync", "--like", dead)
    assert (other.code, other.out) == (2, "")
    assert "is a job of bank/charge" in other.err


def test_a_dry_run_says_what_would_happen(there: Stage) -> None:
    create = ("jobs", "create", "bank/charge")
    fine = there.shell(*create, '{"customer": "a", "cents": 1}', "--dry-run")
    assert (fine.code, fine.out.startswith("It would ")) == (0, True)
    wrong = there.shell(*create, '{"cents": 0}', "--dry-run")
    assert wrong.code == 1
    assert "/payload/customer: " in wrong.out
    assert "/payload/cents: " in wrong.out
    keyed = there.shell("jobs", "create", "bank/sync", '{"origin": "eu"}', "--dry-run", "--json")
    assert keyed.json["key"]["key"] == "origin:eu"
