"""What is secret is in no output of a whole session: of credentials, and of payloads."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from tests.cli.command import Command, running
from tests.cli.shell import Ended, at_terminal, shell
from tests.cli.vault import PIN
from tests.support import planted
from tests.support.planted import PlantedJobs
from trellis_jobs.embedded import HOST, EmbeddedServer

PASSWORD: Final = "pass-4711-word"  # noqa: S105 - looked for in what is printed
APP: Final = "tests.cli.vault:service"
PLANTED: Final = "tests.support.planted:service"
CONFIG: Final = f"""authorization {{ users: [ {{ user: owner, password: "{PASSWORD}" }} ] }}"""
OPENING: Final = json.dumps({"pin": PIN, "door": "front"})


@dataclass
class Session:
    """Commands whose server address has a password in it, and everything they printed."""

    url: str
    processes: list[Command]
    printed: list[str] = field(default_factory=list)

    def run(self, *arguments: str, url: str | None = None) -> Ended:
        ended = shell(*arguments, env={"NATS_URL": url or self.url})
        self.printed += [ended.out, ended.err]
        return ended

    def look(self, *arguments: str) -> None:
        self.printed.append(at_terminal(*arguments, env={"NATS_URL": self.url}).out)

    @property
    def everything(self) -> str:
        return "\n".join([*self.printed, *(process.printed for process in self.processes)])


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    folders = [tmp_path / "admin", tmp_path / "worker"]
    for folder in folders:
        folder.mkdir()
    with EmbeddedServer.start(config=CONFIG) as server:
        url = f"nats://owner:{PASSWORD}@{HOST}:{server.port}"
        env = {"NATS_URL": url}
        serve = ("admin", "serve", "--provision", "--db", str(tmp_path / "jobs.sqlite"))
        debug = ("--log-level", "debug")
        with (
            running(folders[0], *serve, *debug, env=env) as admin,
            running(folders[1], "worker", APP, *debug, env=env) as worker,
        ):
            asyncio.run(admin.until_prints("admin runtime started"))
            asyncio.run(worker.until_prints("worker started"))
            yield Session(url, [admin, worker])


@pytest.mark.timeout(600)
def test_of_a_whole_session(session: Session) -> None:
    made = session.run("jobs", "create", "vault/open-door", OPENING, "--wait", "--json")
    assert made.code == 0, made.err
    job_id = made.json["id"]
    for command in (
        ("jobs", "list"),
        ("jobs", "list", "--json"),
        ("jobs", "get", job_id),
        ("jobs", "get", job_id, "--json"),
        ("jobs", "get", job_id, "--at", "0s"),
        ("jobs", "events", job_id),
        ("jobs", "events", job_id, "--raw"),
        ("jobs", "events", job_id, "--json"),
        ("jobs", "explain", job_id),
        ("jobs", "watch", job_id),
        ("jobs", "watch", job_id, "--json"),
        ("jobs", "tail", "--since", "1h", "--limit", "3"),
        ("jobs", "tail", "--since", "1h", "--limit", "3", "--json"),
        ("jobs", "create", "vault/open-door", json.dumps({"pin": [PIN], "door": "back"})),
        ("queues", "list"),
        ("services",),
        ("infra", "plan", "--app", APP),
        ("contract", "diff", "server", APP),
        ("doctor",),
        ("doctor", "--json"),
        ("jobs", "get", "no-such-job"),
    ):
        ended = session.run(*command)
        assert ended.code in (0, 1, 3), (command, ended.err)
    for seen in (("jobs", "list"), ("jobs", "get", job_id), ("jobs", "events", job_id)):
        session.look(*seen)
    session.look("doctor")
    session.look("jobs", "watch", job_id)
    session.look("jobs", "create", "vault/open-door", OPENING, "--wait")
    refused = session.url.replace("owner", "stranger")
    for command in (("jobs", "list"), ("doctor",), ("worker", APP)):
        assert session.run(*command, url=refused).code in (1, 4)
    nowhere = f"nats://owner:{PASSWORD}@{HOST}:1"
    for command in (("jobs", "list"), ("doctor",)):
        assert session.run(*command, url=nowhere).code in (1, 4)

    everything = session.everything
    assert "[secret]" in everything
    assert PASSWORD not in everything
    assert PIN not in everything


def test_who_asks_for_secrets_gets_them(session: Session) -> None:
    made = session.run("jobs", "create", "vault/open-door", OPENING, "--wait", "--json")
    asked = ("jobs", "get", made.json["id"], "--secrets", "--json")
    with_admin = session.run(*asked)
    assert with_admin.json["payload"] == {"pin": PIN, "door": "front"}
    assert with_admin.json["result"] == PIN
    session.processes[0].process.kill()
    session.processes[0].process.wait()
    from_log = session.run(*asked)
    assert from_log.json["payload"] == {"pin": PIN, "door": "front"}
    assert "Reading the log instead" in from_log.err
    assert session.run("jobs", "get", made.json["id"], "--secrets", "--at", "1s").code == 2


def as_json(does: str) -> str:
    """A payload with its secrets in clear, as a user types it."""
    charge = planted.charge_that(does)
    return json.dumps(PlantedJobs.charge.payload.to_json(charge))


@pytest.mark.timeout(600)
def test_of_handlers_that_quote_their_secrets(session: Session, tmp_path: Path) -> None:
    """In errors, log lines and progress; also the JSON log of a worker, and the contract."""
    worker = ("worker", PLANTED, "--log-level", "debug", "--log-format", "json")
    with running(tmp_path, *worker, env={"NATS_URL": session.url}) as planted_worker:
        session.processes.append(planted_worker)
        asyncio.run(planted_worker.until_prints("worker started"))
        made = {}
        for does in ("fail", "die"):
            created = session.run(
                *("jobs", "create", "planted/charge", as_json(does), "--wait", "--json")
            )
            made[does] = created.json["id"]
        for command in (
            ("jobs", "get", made["die"], "--json"),
            ("jobs", "events", made["die"]),
            ("jobs", "logs", made["die"]),
            ("jobs", "explain", made["die"]),
            ("jobs", "list", "--error", "charge"),
            ("dlq", "list", "--group"),
            ("dlq", "show", made["die"]),
            ("contract", "diff", "server", PLANTED),
            ("jobs", "create", "planted/charge", as_json("die").replace("5", "x")),
        ):
            ended = session.run(*command)
            assert ended.code in (0, 1, 2, 3), (command, ended.err)
        (tmp_path / "manifest.json").write_text(session.run("contract", "show", PLANTED).out)
        session.run("contract", "generate", str(tmp_path / "manifest.json"))
    assert "cannot charge [secret]" in session.everything
    assert planted.found_in(session.everything) == []
