"""`trellis-jobs doctor`: what is well, what is not, and what to do."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jobs_admin.api.views.doctor import Finding, Level, Section
from jobs_admin.cli.doctor import verdict
from jobs_admin.doctor import rules
from jobs_admin.doctor.findings import broken, completed, diagnosis, fine, note, warning
from jobs_admin.queues.state import compare_with_code, queue_views
from tests.cli.shell import shell
from tests.cli.stage import Place, Stage, stage
from tests.cli.test_queues import WORK, consumer, listed
from tests.support.cluster import cluster
from tests.support.facts import until
from tests.support.lab import probe
from tests.support.servers import start_version
from trellis_jobs.contract.declaration import ServiceContract
from trellis_jobs.contract.topology import Topology
from trellis_jobs.embedded import HOST, EmbeddedServer
from trellis_jobs.environment import own_version
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.client.connect_options import ConnectOptions
from trellis_jobs.jetstream.client.replication import Replication
from trellis_jobs.jetstream.log.presence import Presence
from trellis_jobs.jetstream.setup.provision import provision
from trellis_jobs.jetstream.setup.readers import Reader, list_readers
from trellis_jobs.model.presence import WorkerHeartbeat

PROOF = "s3cret"
SECTIONS = [
    "command",
    "connection",
    "server",
    "streams",
    "queues",
    "alarms",
    "readers",
    "permissions",
    "admin",
    "clock",
]


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with stage(tmp_path_factory.mktemp("stage")) as made:
        yield made


def findings(told: Any, section: str) -> list[dict[str, str]]:
    [found] = [each for each in told["sections"] if each["name"] == section]
    return list(found["findings"])


def printed(told: Any, section: str) -> list[str]:
    return [finding["message"] for finding in findings(told, section)]


def test_doctor_leaves_no_refusal_in_the_log_of_the_admin_runtime(there: Stage) -> None:
    """Whether jobs may be changed was tried with a request that had to be refused."""
    told = there.shell("doctor", "--json").json
    assert any("change jobs through it" in each for each in printed(told, "permissions"))
    assert "refused" not in there.admin.printed


def test_where_all_is_well_there_is_nothing_to_do(there: Stage) -> None:
    ended = there.shell("doctor", "--json")
    assert ended.code == 0, ended.out
    told = ended.json
    assert [each["name"] for each in told["sections"]] == SECTIONS
    assert (told["ok"], told["toDo"]) == (True, [])
    assert "not encrypted" in printed(told, "connection")[0]
    assert printed(told, "connection")[1] == "no credentials, account $G"
    assert "JOBS_WORK is up to date" in printed(told, "streams")
    assert printed(told, "command")[0].startswith(f"trellis-jobs {own_version()}, Python 3.")
    answers, version = printed(told, "admin")
    assert answers.startswith("answers, mode full")
    assert version == f"same version as this command: {own_version()}"
    on_a_terminal = there.at_terminal("doctor")
    assert on_a_terminal.code == 0
    assert "Nothing to do." in on_a_terminal.plain
    assert all(len(line) <= 80 for line in on_a_terminal.plain.splitlines())


def test_a_worker_whose_event_loop_was_blocked_is_named_with_what_to_do(there: Stage) -> None:
    async def beat(*, stopping: bool) -> None:
        async with probe(there.url) as raw:
            heartbeat = WorkerHeartbeat(
                service="lab",
                job_type="work",
                instance="sluggish",
                at=datetime.now(UTC),
                stopping=stopping,
                loop_blocked=timedelta(seconds=3.2),
            )
            await Presence(raw.connection, raw.features).beat(heartbeat)
            await raw.connection.flush()

    def is_told() -> bool:
        told = printed(there.shell("doctor", "--json").json, "admin")
        return any("sluggish of lab: a handler blocked its event loop for 3.2 s" in t for t in told)

    asyncio.run(beat(stopping=False))
    asyncio.run(until(is_told, "doctor names the worker"))
    assert "asyncio.to_thread" in " ".join(there.shell("doctor", "--json").json["toDo"])
    asyncio.run(beat(stopping=True))
    asyncio.run(until(lambda: not is_told(), "a worker that stopped is not named"))


def test_a_bare_server_gets_a_list_of_what_to_do_the_worst_first(server: EmbeddedServer) -> None:
    ended = Place(server.url).shell("doctor", "--json")
    assert ended.code == 1
    made, ran = ended.json["toDo"]
    assert made == "create what is missing: trellis-jobs infra apply"
    assert ran.startswith("run `trellis-jobs admin serve`")
    assert "JOBS is missing" in printed(ended.json, "streams")
    assert "stream JOBS_WORK does not exist" in printed(ended.json, "queues")[0]
    assert "no admin runtime answers" in printed(ended.json, "admin")


def test_without_a_server_it_ends_with_4_and_no_secret_is_shown() -> None:
    url = "nats://ann:s3cret@127.0.0.1:1"
    for arguments in (("doctor",), ("doctor", "--json")):
        ended = shell(*arguments, "--nats", url)
        assert ended.code == 4
        assert "no NATS server answers" in ended.out
        assert "s3cret" not in ended.out + ended.err


RIGHTS = {"publish": ["rpc.v1.Jobs.Health", "$SYS.REQ.USER.INFO"], "subscribe": ["_INBOX.>"]}
CONFIG = f"""
accounts {{
    SYS: {{ users: [{{ user: sys, password: sys }}] }}
    A: {{ jetstream: enabled, users: [
        {{ user: operator, password: s3cret, permissions: {json.dumps(RIGHTS)} }}
        {{ user: owner, password: s3cret }}
        {{ user: stranger, password: s3cret, permissions: {{ publish: "other.>" }} }}
        {{ user: deaf, password: s3cret, permissions: {{ subscribe: "other.>" }} }}
    ] }}
}}
system_account: SYS
"""


def test_what_credentials_may_not_do_is_told_and_stops_no_other_check() -> None:
    with EmbeddedServer.start(config=CONFIG) as server:
        host = f"{HOST}:{server.port}"
        ended = shell("doctor", "--json", "--nats", f"nats://operator:s3cret@{host}")
        deaf = shell("doctor", "--json", "--nats", f"nats://deaf:s3cret@{host}")
        system = ("--system-account", f"nats://sys:sys@{host}")
        owned = shell("doctor", "--json", "--nats", f"nats://owner:s3cret@{host}", *system)
    told = ended.json
    assert [each["name"] for each in told["sections"]] == SECTIONS
    assert printed(told, "connection")[1] == "user operator, account A"
    may, may_not = printed(told, "permissions")
    assert may == "permitted: ask the admin runtime"
    assert "make and change streams" in may_not
    assert "not checked" in printed(told, "streams")[0]
    assert "writes are confirmed before they are on disk" in " ".join(printed(owned.json, "server"))
    assert "make and change streams" in printed(owned.json, "permissions")[0]
    assert [each["name"] for each in deaf.json["sections"]] == SECTIONS
    allow = "permit these credentials to subscribe to _INBOX.>, to receive replies"
    assert deaf.json["toDo"] == [allow]
    assert "s3cret" not in ended.out + owned.out + ended.err + owned.err


def test_credentials_that_may_hear_no_answer_are_told_what_to_allow() -> None:
    with EmbeddedServer.start(config=CONFIG) as server:
        url = f"nats://deaf:s3cret@{HOST}:{server.port}"
        for command in (["jobs", "list"], ["queues", "list"], ["jobs", "get", "x"]):
            ended = shell(*command, "--nats", url)
            assert ended.code == 1
            assert "may not subscribe to _INBOX.>, where replies arrive" in ended.err


def test_nothing_to_do_is_not_said_of_what_could_not_be_looked_at() -> None:
    with EmbeddedServer.start(config=CONFIG) as server:
        host = f"{HOST}:{server.port}"
        blind = shell("doctor", "--nats", f"nats://stranger:s3cret@{host}")
        told = shell("doctor", "--json", "--nats", f"nats://stranger:s3cret@{host}").json
    assert blind.code == 1
    assert "may at least send requests to the admin runtime" in " ".join(blind.out.split())
    assert {"streams", "queues", "clock"} <= set(told["notSeen"])


def section(name: str, *findings: Finding) -> Section:
    return Section(name=name, findings=findings)


def test_the_verdict_names_what_was_not_seen() -> None:
    found = diagnosis((section("a", fine("x")), section("b", note("y"))), not_seen={"b"})
    assert verdict(found) == "Nothing to do. Not checked for lack of permission: b."
    assert found.not_seen == ("b",)
    assert found.ok


def test_the_admin_runtime_completes_only_what_could_not_be_checked() -> None:
    mine = diagnosis(
        (section("a", fine("x")), section("b", note("y")), section("c", note("z"))), {"b", "c"}
    )
    theirs = diagnosis(
        (section("a", broken("no", "1")), section("b", broken("p", "2")), section("c")), {"c"}
    )
    found = completed(mine, theirs)
    assert [each.name for each in found.sections] == ["a", "b", "c"]
    assert found.sections[0] == mine.sections[0]
    checked, problem = found.sections[1].findings
    assert checked.message == "checked by the admin runtime, because these credentials may not"
    assert (problem.message, found.to_do, found.not_seen) == ("p", ("2",), ("c",))


def test_queues_that_need_nothing_are_counted_whatever_is_said_of_the_others() -> None:
    late = consumer(config={**consumer().config, "ack_wait": 2_000_000_000})
    server = [listed("work", late), listed("idle", consumer(pending=0))]
    declared = ServiceContract("lab", {"work": WORK, "idle": WORK})
    made = compare_with_code(queue_views(server, None), server, declared)
    found = rules.check_queues(made)
    assert len(found) > 2
    assert found[0].message == "1 of 2 queues are healthy"


def test_an_older_server_lacks_things_and_says_what_that_means() -> None:
    with start_version("2.10.26") as server:
        ended = Place(server.url).shell("doctor", "--json")
    assert ended.code == 1
    assert any("queues cannot be paused" in each for each in printed(ended.json, "server"))
    assert "upgrade nats-server: 2.15 is recommended" in ended.json["toDo"]


def test_probing_rights_leaves_nothing_behind(there: Stage) -> None:
    def log_and_consumers() -> tuple[int, int]:
        return asyncio.run(_counted(there.url))

    before = log_and_consumers()
    assert there.shell("doctor", "--app", "tests.cli.shop:service").code == 1
    assert log_and_consumers() == before


async def _counted(url: str) -> tuple[int, int]:
    async with probe(url) as raw:
        log = (await api.request(raw.connection, "STREAM.INFO.JOBS"))["state"]
        work = (await api.request(raw.connection, "STREAM.INFO.JOBS_WORK"))["state"]
        return int(log["last_seq"]), int(work["consumer_count"])


async def test_push_consumers_that_services_made_are_reported(server: EmbeddedServer) -> None:
    async with probe(server.url) as raw:
        await provision(raw.connection, Topology(raw.features))
        config = {
            "name": "spy",
            "ack_policy": "none",
            "filter_subject": "trellis.jobs.garden.>",
            "deliver_subject": "somewhere",
        }
        body = {"stream_name": "JOBS", "action": "create", "config": config}
        await api.request(raw.connection, "CONSUMER.CREATE.JOBS.spy.trellis.jobs.garden.>", body)
        readers = await list_readers(raw.connection)
    [finding] = rules.check_readers(readers)
    assert finding.message.startswith("JOBS/spy pushes the jobs of garden to somewhere:")
    assert str(finding.remedy).endswith("nats consumer rm JOBS spy")


def test_a_service_with_very_many_readers_is_reported() -> None:
    many = [Reader("JOBS", f"r{number}", "garden") for number in range(rules.MAX_READERS + 1)]
    [finding] = rules.check_readers(many)
    assert finding.message.startswith("1001 consumers of JOBS read the jobs of garden")
    [finding] = rules.check_readers(many[1:])
    assert finding.level is Level.FINE


def test_one_reader_is_not_called_readers() -> None:
    found = [
        rules.check_readers([Reader("JOBS", f"r{n}", "lab") for n in range(number)])
        for number in (1, 2)
    ]
    assert [finding.message.split(" of ")[0] for [finding] in found] == ["1 reader", "2 readers"]


@pytest.mark.parametrize(
    ("settings", "limit", "option"),
    [
        ({"max_bytes": 1_000_000}, "max_bytes 1,000,000", "--discard=new"),
        ({"max_msgs": 500}, "max_msgs 500", "--discard=new"),
        ({"max_age": 3_600_000_000_000}, "max_age 1 h", "--max-age=0s"),
        (
            {"max_age": 3_600_000_000_000, "max_bytes": 9, "discard": "new"},
            "max_age 1 h",
            "--max-age=0s",
        ),
    ],
)
async def test_a_limit_by_which_the_log_drops_events_is_broken(
    server: EmbeddedServer, settings: dict[str, Any], limit: str, option: str
) -> None:
    await _limit_log(server.url, settings)
    told = (await asyncio.to_thread(Place(server.url).shell, "doctor", "--json")).json
    [finding] = [each for each in findings(told, "streams") if "deletes" in each["message"]]
    assert f"because it has {limit}: jobs lose" in finding["message"]
    assert finding["level"] == "broken"
    assert finding["remedy"].endswith(f": nats stream edit JOBS {option}")


async def test_a_log_that_refuses_events_when_full_drops_none(server: EmbeddedServer) -> None:
    await _limit_log(server.url, {"max_bytes": 1_000_000, "max_msgs": 500, "discard": "new"})
    told = (await asyncio.to_thread(Place(server.url).shell, "doctor", "--json")).json
    assert not [each for each in printed(told, "streams") if "deletes" in each]


async def _limit_log(url: str, settings: dict[str, Any]) -> None:
    async with probe(url) as raw:
        await provision(raw.connection, Topology(raw.features))
        config = (await api.request(raw.connection, "STREAM.INFO.JOBS"))["config"]
        await api.request(raw.connection, "STREAM.UPDATE.JOBS", {**config, **settings})


async def test_without_jobs_control_only_operations_do_not_work(server: EmbeddedServer) -> None:
    async with probe(server.url) as raw:
        await provision(raw.connection, Topology(raw.features, with_control=False))
    told = (await asyncio.to_thread(Place(server.url).shell, "doctor", "--json")).json
    [finding] = [each for each in findings(told, "streams") if "missing" in each["message"]]
    assert finding["message"].startswith(
        "JOBS_CONTROL is missing: jobs run, but operations on many"
    )
    assert (finding["level"], finding["remedy"]) == ("warning", rules.CREATE_MISSING)


def test_the_worst_comes_first_and_each_thing_once() -> None:
    found = diagnosis(
        (
            section("a", fine("x"), warning("y", "later"), warning("z", "later")),
            section("b", broken("w", "first")),
        )
    )
    assert found.to_do == ("first", "later")
    assert not found.ok
    assert diagnosis((section("a", fine("x")),)).ok


@pytest.mark.parametrize("of_daemon", ["0.9.0", None])
def test_an_admin_runtime_of_another_version_wants_the_upgrade_finished(
    of_daemon: str | None,
) -> None:
    found = rules.check_version("1.0.0", of_daemon)
    assert found.level is Level.WARNING
    assert "1.0.0" in found.message
    assert (of_daemon or "an older version of trellis-jobs") in found.message
    assert "the same version of trellis-jobs" in str(found.remedy)


@pytest.mark.parametrize(
    ("ahead", "level"),
    [
        (timedelta(milliseconds=-900), Level.FINE),
        (timedelta(seconds=1.5), Level.WARNING),
        (timedelta(minutes=-5), Level.WARNING),
    ],
)
def test_clocks_may_differ_by_a_second(ahead: timedelta, level: Level) -> None:
    assert rules.check_clock(ahead).level is level


def test_replicas_that_lag_behind_and_too_few_in_a_cluster_want_attention() -> None:
    healthy = Replication("JOBS", 3, "n1", ())
    assert [f.level for f in rules.check_replication([healthy], "c")] == [Level.FINE]
    away = Replication("JOBS", 3, "n1", ("n2",))
    assert "n2" in rules.check_replication([away], "c")[0].message
    lagging = Replication("JOBS", 3, "n1", (), ("n3",))
    assert "replica on n3 lags behind" in rules.check_replication([lagging], "c")[0].message
    headless = Replication("JOBS", 3, None, ())
    assert rules.check_replication([headless], "c")[0].level is Level.BROKEN
    single = Replication("JOBS", 1, None, (), is_clustered=False)
    [few] = rules.check_replication([single], "c")
    assert "--replicas 3" in str(few.remedy)
    assert rules.check_replication([single], None)[0].level is Level.NOTE


def test_work_without_a_worker_is_the_worst_state_of_a_queue() -> None:
    made = queue_views([listed("work", consumer())], None)
    assert [f.level for f in rules.check_queues(made)] == [Level.NOTE, Level.BROKEN]
    paused = queue_views([listed("work", consumer(is_paused=True))], None)
    assert [f.level for f in rules.check_queues(paused)] == [Level.NOTE, Level.NOTE]


@pytest.mark.parametrize(
    ("access", "identity"),
    [
        (ConnectOptions(servers="nats://h:1"), "no credentials"),
        (ConnectOptions(servers="nats://ann:pw@h:1"), "user ann"),
        (ConnectOptions(servers="nats://s3cret@h:1"), "a token"),
        (ConnectOptions(servers="nats://h:1", token=PROOF), "a token"),
        (ConnectOptions(servers="nats://h:1", user="bob", password=PROOF), "user bob"),
        (
            ConnectOptions(servers="nats://h:1", credentials="/x/a.creds"),
            "credentials file /x/a.creds",
        ),
        (ConnectOptions(servers="nats://h:1", nkey="/x/a.nk"), "nkey file /x/a.nk"),
    ],
)
def test_who_one_is_is_told_without_what_proves_it(access: ConnectOptions, identity: str) -> None:
    assert access.identity() == identity


def test_in_a_cluster_one_replica_is_too_few() -> None:
    with cluster() as three:
        asyncio.run(three.until_ready())
        there = Place(three.url)
        there.shell("infra", "apply")
        few = there.shell("doctor", "--json")
        assert any("fewer than 3 replicas" in each for each in printed(few.json, "streams"))
        there.shell("infra", "apply", "--replicas", "3", "--yes")
        grown = there.shell("doctor", "--json")
        assert "every stream has 3 replicas" in printed(grown.json, "streams")
