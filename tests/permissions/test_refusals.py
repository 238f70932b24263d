"""What the server refuses: a garden that wants to meddle with the house, and others with more.

With accounts the same is tried by a user in the garden's account without restrictions: the
account alone keeps him out.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import pytest

from tests.permissions.installation import CARELESS, ROOT_USER, Installation
from tests.support.facts import until
from trellis_jobs.errors import NotPermitted
from trellis_jobs.jetstream.client.connection import Connection, NoResponders

NOT_ENABLED: Final = 10039
JOB: Final = "trellis.jobs.house.work.01JHOUSEJOB"
KEY: Final = "$KV.JOBS_KEYS.house.keyed.0123abcd"
CONTROL: Final = "trellis.control.jobs"
OPERATION: Final = f"{CONTROL}.operations.01JOPERATION"
AUDITED: Final = f"{CONTROL}.audit.admin.01JRECORD"
AUDITED_COMMAND: Final = f"{CONTROL}.audit.command.01JRECORD"
SCHEDULE: Final = f"{CONTROL}.schedules.house.attic.x"
_CHANGES_OF_SCHEDULES: Final = (
    "PutSchedule",
    "PauseSchedule",
    "ResumeSchedule",
    "TriggerSchedule",
    "DeleteSchedule",
)
EVENT: Final = '{"eventType":"cancelled"}'
READER: Final = {"name": "spy", "ack_policy": "none", "inactive_threshold": 5_000_000_000}
PULL: Final = '{"batch":1,"no_wait":true}'


def consumer(stream: str, **config: Any) -> str:
    return json.dumps({"stream_name": stream, "action": "create", "config": READER | config})


@dataclass(frozen=True)
class Deed:
    """`api`: a call of JetStream, whatever prefix it has. `undone`: too harmful to try."""

    what: str
    subject: str
    body: str = ""
    api: bool = False
    undone: bool = False

    def subjects(self, prefixes: set[str]) -> list[str]:
        return (
            [f"{each}.{self.subject}" for each in sorted(prefixes)] if self.api else [self.subject]
        )


def call(what: str, subject: str, body: str = "", *, undone: bool = False) -> Deed:
    return Deed(what, subject, body, api=True, undone=undone)


OF_A_SERVICE: Final = (
    Deed("create a job of another", f"{JOB}.created", EVENT),
    Deed("cancel a job of another", f"{JOB}.cancelled", EVENT),
    Deed("complete a job of another", f"{JOB}.completed", EVENT),
    Deed("write a note on a job of another", f"{JOB}.logged", EVENT),
    Deed("retry a job of another", f"{JOB}.retried", EVENT),
    Deed("tell presence of another", "trellis.jobs.workers.house.work.i1.heartbeat", "{}"),
    Deed("make work that no queue takes", "trellis.jobs.workers.garden.work.created", EVENT),
    Deed("make such work in a lane", "trellis.jobs.workers.garden.work.p1.created", EVENT),
    Deed("enqueue work of another", "trellis.work.house.work.01JHOUSEJOB", EVENT),
    Deed("enqueue its own work past the log", "trellis.work.garden.work.01JGARDENJOB", EVENT),
    Deed("write a key of another", KEY, "{}"),
    Deed("start an operation past the admin runtime", OPERATION, "{}"),
    call("read operations", "STREAM.MSG.GET.JOBS_CONTROL", f'{{"last_by_subj":"{OPERATION}"}}'),
    call("read an operation at once", f"DIRECT.GET.JOBS_CONTROL.{OPERATION}"),
    call("list operations", "STREAM.INFO.JOBS_CONTROL"),
    call("delete operations", "STREAM.PURGE.JOBS_CONTROL", undone=True),
    Deed("ask for an operation", "rpc.v1.Jobs.Operate", "{}", undone=True),
    Deed("direct another service's worker", "trellis.control.jobs.workers.house.i1", "{}"),
    Deed("hint another's worker", "trellis.hints.jobs.workers.house.i1", "", undone=True),
    Deed("hint its own worker", "trellis.hints.jobs.workers.garden.i1", "", undone=True),
    call(
        "read another service's worker",
        "DIRECT.GET.JOBS_CONTROL.trellis.control.jobs.workers.house.i1",
    ),
    Deed("write a schedule of another", SCHEDULE, "{}"),
    call("read a schedule of another", f"DIRECT.GET.JOBS_CONTROL.{SCHEDULE}"),
    call(
        "follow the schedules of another",
        f"CONSUMER.CREATE.JOBS_CONTROL.spy.{CONTROL}.schedules.house.*.*",
        consumer("JOBS_CONTROL", filter_subject=f"{CONTROL}.schedules.house.*.*"),
    ),
    call(
        "follow all schedules",
        f"CONSUMER.CREATE.JOBS_CONTROL.spy.{CONTROL}.schedules.*.*.*",
        consumer("JOBS_CONTROL", filter_subject=f"{CONTROL}.schedules.*.*.*"),
    ),
    Deed("set an alarm of another", "trellis.alarm.house.schedule.attic.x"),
    Deed("ring an alarm of another", "trellis.due.house.schedule.attic.x", undone=True),
    call(
        "read an alarm of another",
        "DIRECT.GET.JOBS_ALARMS_house.trellis.alarm.house.schedule.attic.x",
    ),
    call("take alarms of another", "CONSUMER.MSG.NEXT.JOBS_ALARMS_house.due", PULL, undone=True),
    call("purge alarms of another", "STREAM.PURGE.JOBS_ALARMS_house", undone=True),
    Deed("record what no operator did", AUDITED, "{}"),
    Deed("record what no command did", AUDITED_COMMAND, "{}"),
    call("read what an operator did", f"DIRECT.GET.JOBS_CONTROL.{AUDITED}"),
    call(
        "follow what operators do",
        f"CONSUMER.CREATE.JOBS_CONTROL.spy.{CONTROL}.audit.*.*",
        consumer("JOBS_CONTROL", filter_subject=f"{CONTROL}.audit.*.*"),
    ),
    Deed("list what operators did", "rpc.v1.Jobs.ListAudit", "{}", undone=True),
    Deed("list schedules", "rpc.v1.Jobs.ListSchedules", "{}", undone=True),
    Deed("have a schedule made", "rpc.v1.Jobs.PutSchedule", "{}", undone=True),
    Deed("have a schedule triggered", "rpc.v1.Jobs.TriggerSchedule", "{}", undone=True),
    Deed("list all queues", "rpc.v1.Jobs.ListQueues", "{}", undone=True),
    Deed("have a queue paused", "rpc.v1.Jobs.PauseQueue", "{}", undone=True),
    Deed("have a queue resumed", "rpc.v1.Jobs.ResumeQueue", "{}", undone=True),
    Deed("have the installation checked", "rpc.v1.Jobs.Doctor", "{}", undone=True),
    Deed("ask what needs attention", "rpc.v1.Jobs.Attention", "{}", undone=True),
    call("read a job of another", f"DIRECT.GET.JOBS.{JOB}.>"),
    call("read the log of everybody", "DIRECT.GET.JOBS.trellis.jobs.>"),
    call("read the newest of any service", "DIRECT.GET.JOBS.trellis.jobs.*.work.*.completed"),
    call("read presence of another", "DIRECT.GET.JOBS.trellis.jobs.workers.house.>"),
    call("read by body", "DIRECT.GET.JOBS", f'{{"last_by_subj":"{JOB}.created"}}'),
    call("read by sequence", "DIRECT.GET.JOBS", '{"seq":1}'),
    call("read several by body", "DIRECT.GET.JOBS", '{"multi_last":["trellis.jobs.house.>"]}'),
    call("read a key of another", f"DIRECT.GET.KV_JOBS_KEYS.{KEY}"),
    call("read all keys", "DIRECT.GET.KV_JOBS_KEYS.$KV.JOBS_KEYS.>"),
    call("read a key by body", "DIRECT.GET.KV_JOBS_KEYS", f'{{"last_by_subj":"{KEY}"}}'),
    call("read work", "DIRECT.GET.JOBS_WORK.trellis.work.house.>", undone=True),
    call("get a message of the log", "STREAM.MSG.GET.JOBS", '{"seq":1}'),
    call("get a message of the work", "STREAM.MSG.GET.JOBS_WORK", '{"seq":1}'),
    call("get a message of the keys", "STREAM.MSG.GET.KV_JOBS_KEYS", '{"seq":1}'),
    call("delete a message of the log", "STREAM.MSG.DELETE.JOBS", '{"seq":999999}'),
    call("delete a message of the work", "STREAM.MSG.DELETE.JOBS_WORK", '{"seq":999999}'),
    call("take work of another", "CONSUMER.MSG.NEXT.JOBS_WORK.house-work", PULL, undone=True),
    call("take advisories", "CONSUMER.MSG.NEXT.JOBS_ADVISORIES.jobs-advisories", PULL, undone=True),
    Deed("ack for another", "$JS.ACK.JOBS_WORK.house-work.1.1.1.1.0", "+ACK", undone=True),
    Deed("nak for another", "$JS.ACK.JOBS_WORK.house-work.1.1.1.1.0", "-NAK", undone=True),
    Deed("term for another", "$JS.ACK.JOBS_WORK.house-work.1.1.1.1.0", "+TERM", undone=True),
    Deed("renew for another", "$JS.ACK.JOBS_WORK.house-work.1.1.1.1.0", "+WPI", undone=True),
    Deed("ack for the source", "$JS.ACK.JOBS.to-work.1.1.1.1.0", "+ACK", undone=True),
    call("see a consumer of another", "CONSUMER.INFO.JOBS_WORK.house-work"),
    call("see all consumers", "CONSUMER.LIST.JOBS_WORK"),
    call("see all names of consumers", "CONSUMER.NAMES.JOBS_WORK"),
    call(
        "make a reader of another's jobs",
        "CONSUMER.CREATE.JOBS.spy.trellis.jobs.house.>",
        consumer("JOBS", filter_subject="trellis.jobs.house.>"),
    ),
    call("make a reader of everything", "CONSUMER.CREATE.JOBS.spy", consumer("JOBS")),
    call("make a reader the old way", "CONSUMER.DURABLE.CREATE.JOBS.spy", consumer("JOBS")),
    call("make a nameless reader", "CONSUMER.CREATE.JOBS", consumer("JOBS")),
    call(
        "make a consumer of another's work",
        "CONSUMER.CREATE.JOBS_WORK.house-work.trellis.work.house.work.*",
        consumer("JOBS_WORK", name="house-work", filter_subject="trellis.work.house.work.*"),
        undone=True,
    ),
    call(
        "have another's work pushed to oneself",
        "CONSUMER.CREATE.JOBS_WORK.spy.trellis.work.house.>",
        consumer("JOBS_WORK", filter_subject="trellis.work.house.>", deliver_subject="x"),
        undone=True,
    ),
    call(
        "watch the keys of another",
        "CONSUMER.CREATE.KV_JOBS_KEYS.spy.$KV.JOBS_KEYS.house.>",
        consumer("KV_JOBS_KEYS", filter_subject="$KV.JOBS_KEYS.house.>"),
    ),
    call("delete a consumer of another", "CONSUMER.DELETE.JOBS_WORK.house-work", undone=True),
    call("delete one's own consumer", "CONSUMER.DELETE.JOBS_WORK.garden-work", undone=True),
    call("delete the source", "CONSUMER.DELETE.JOBS.to-work", undone=True),
    call("pause a queue of another", "CONSUMER.PAUSE.JOBS_WORK.house-work", "{}", undone=True),
    call("make a stream", "STREAM.CREATE.SPY", '{"name":"SPY","subjects":["spy"]}', undone=True),
    call("change the log", "STREAM.UPDATE.JOBS", '{"name":"JOBS"}', undone=True),
    call("delete the log", "STREAM.DELETE.JOBS", undone=True),
    call("delete the work", "STREAM.DELETE.JOBS_WORK", undone=True),
    call("delete the keys", "STREAM.DELETE.KV_JOBS_KEYS", undone=True),
    call("purge the log", "STREAM.PURGE.JOBS", undone=True),
    call(
        "purge its own jobs", "STREAM.PURGE.JOBS", '{"filter":"trellis.jobs.garden.>"}', undone=True
    ),
    call("purge the keys", "STREAM.PURGE.KV_JOBS_KEYS", undone=True),
    call("see the work stream", "STREAM.INFO.JOBS_WORK"),
    call("see the subjects of the log", "STREAM.INFO.JOBS", '{"subjects_filter":">"}'),
    call("see all streams", "STREAM.LIST"),
    call("see all names of streams", "STREAM.NAMES"),
    call("snapshot the log", "STREAM.SNAPSHOT.JOBS", '{"deliver_subject":"spy"}', undone=True),
    Deed("ask the admin runtime", "rpc.v1.Jobs.List", "{}", undone=True),
    Deed("cancel through the admin runtime", "rpc.v1.Jobs.Cancel", "{}", undone=True),
    Deed("answer an inbox of another", "_INBOX_house.abc", "{}", undone=True),
    Deed(
        "forge an advisory", "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.JOBS_WORK.house-work", "{}"
    ),
    Deed("feed the work queue's source", "_src.jobs.work", EVENT, undone=True),
    Deed("ask the servers", "$SYS.REQ.SERVER.PING.JSZ", undone=True),
)
TO_WORK: Final = call(
    "give the source another filter",
    "CONSUMER.CREATE.JOBS.to-work.trellis.jobs.garden.>",
    consumer("JOBS", name="to-work", filter_subject="trellis.jobs.garden.>"),
    undone=True,
)
OF_OPERATORS: Final = (
    ("reader", Deed("cancel", "rpc.v1.Jobs.Cancel", "{}", undone=True)),
    ("reader", Deed("retry", "rpc.v1.Jobs.Retry", "{}", undone=True)),
    ("reader", Deed("replay", "rpc.v1.Jobs.ReplayDLQ", "{}", undone=True)),
    ("reader", Deed("dismiss", "rpc.v1.Jobs.DismissDLQ", "{}", undone=True)),
    ("reader", Deed("operate", "rpc.v1.Jobs.Operate", "{}", undone=True)),
    ("reader", Deed("stop an operation", "rpc.v1.Jobs.StopOperation", "{}", undone=True)),
    ("reader", Deed("pause a queue", "rpc.v1.Jobs.PauseQueue", "{}", undone=True)),
    ("reader", Deed("resume a queue", "rpc.v1.Jobs.ResumeQueue", "{}", undone=True)),
    ("reader", call("pause past it", "CONSUMER.PAUSE.JOBS_WORK.house-work", undone=True)),
    ("changer", call("pause past it", "CONSUMER.PAUSE.JOBS_WORK.house-work", undone=True)),
    ("changer", Deed("list queues", "rpc.v1.Jobs.ListQueues", "{}", undone=True)),
    ("watcher", Deed("list queues", "rpc.v1.Jobs.ListQueues", "{}", undone=True)),
    ("watcher", Deed("pause a queue", "rpc.v1.Jobs.PauseQueue", "{}", undone=True)),
    ("watcher", Deed("resume a queue", "rpc.v1.Jobs.ResumeQueue", "{}", undone=True)),
    ("watcher", Deed("ask doctor", "rpc.v1.Jobs.Doctor", "{}", undone=True)),
    ("provisioner", Deed("pause a queue", "rpc.v1.Jobs.PauseQueue", "{}", undone=True)),
    ("provisioner", Deed("statistics", "rpc.v1.Jobs.Stats", "{}", undone=True)),
    ("jobs-admin", call("pause all job starts", "CONSUMER.PAUSE.JOBS.to-work", undone=True)),
    ("jobs-admin", call("delete a queue", "CONSUMER.DELETE.JOBS_WORK.house-work", undone=True)),
    *(
        (who, Deed(f"call {name}", f"rpc.v1.Jobs.{name}", "{}", undone=True))
        for who in ("reader", "watcher", "keeper", "foreman")
        for name in _CHANGES_OF_SCHEDULES
    ),
    ("changer", Deed("list schedules", "rpc.v1.Jobs.ListSchedules", "{}", undone=True)),
    *(
        (who, Deed("write a schedule", SCHEDULE, "{}"))
        for who in ("reader", "changer", "watcher", "keeper", "director", "provisioner")
    ),
    *(
        (who, Deed("ring an alarm", "trellis.due.house.schedule.attic.x", undone=True))
        for who in ("reader", "changer", "watcher", "director", "provisioner")
    ),
    ("jobs-admin", call("purge alarms", "STREAM.PURGE.JOBS_ALARMS_house", undone=True)),
    (
        "jobs-admin",
        call("take alarms", "CONSUMER.MSG.NEXT.JOBS_ALARMS_house.due", PULL, undone=True),
    ),
    *(
        (who, Deed("replace a record of the admin runtime", AUDITED, "{}"))
        for who in ("reader", "changer", "watcher", "keeper", "director", "foreman", "provisioner")
    ),
    *(
        (who, Deed("record a command", AUDITED_COMMAND, "{}"))
        for who in ("reader", "changer", "watcher", "foreman", "provisioner", "jobs-admin")
    ),
    *(
        (who, call("read records", f"DIRECT.GET.JOBS_CONTROL.{AUDITED}"))
        for who in ("reader", "changer", "watcher", "keeper", "director", "foreman", "provisioner")
    ),
    ("changer", Deed("list what others did", "rpc.v1.Jobs.ListAudit", "{}", undone=True)),
    *(
        (who, Deed("create a job", "rpc.v1.Jobs.Create", "{}", undone=True))
        for who in ("reader", "changer", "watcher", "keeper", "foreman", "director", "provisioner")
    ),
    *(
        ("maker", Deed(f"call {name}", f"rpc.v1.Jobs.{name}", "{}", undone=True))
        for name in ("Cancel", "Retry", "Operate", "List", "GetSecrets", "PutSchedule")
    ),
    ("maker", Deed("create past the admin runtime", f"{JOB}.created", EVENT)),
    ("maker", Deed("write a key", KEY, "{}")),
    ("maker", call("read the log", f"DIRECT.GET.JOBS.{JOB}.>")),
    *(
        (who, Deed(f"call {name}", f"rpc.v1.Jobs.{name}", "{}", undone=True))
        for who in ("changer", "watcher", "foreman")
        for name in ("GetContract", "RecentPayloads")
    ),
    ("reader", Deed("write an operation", OPERATION, "{}")),
    ("changer", Deed("write an operation", OPERATION, "{}")),
    ("watcher", Deed("write an operation", OPERATION, "{}")),
    ("watcher", Deed("operate", "rpc.v1.Jobs.Operate", "{}", undone=True)),
    ("reader", Deed("direct a worker", f"{CONTROL}.workers.house.i1", "{}")),
    ("changer", Deed("direct a worker", f"{CONTROL}.workers.house.i1", "{}")),
    ("watcher", Deed("direct a worker", f"{CONTROL}.workers.house.i1", "{}")),
    ("provisioner", Deed("direct a worker", f"{CONTROL}.workers.house.i1", "{}")),
    ("foreman", Deed("direct past the admin runtime", f"{CONTROL}.workers.house.i1", "{}")),
    ("foreman", Deed("list jobs", "rpc.v1.Jobs.List", "{}", undone=True)),
    ("foreman", Deed("cancel", "rpc.v1.Jobs.Cancel", "{}", undone=True)),
    ("foreman", call("read workers", f"DIRECT.GET.JOBS_CONTROL.{CONTROL}.workers.house.i1")),
    ("reader", Deed("direct by request", "rpc.v1.Jobs.DirectWorkers", "{}", undone=True)),
    ("changer", Deed("direct by request", "rpc.v1.Jobs.DirectWorkers", "{}", undone=True)),
    ("watcher", Deed("direct by request", "rpc.v1.Jobs.DirectWorkers", "{}", undone=True)),
    ("keeper", Deed("direct by request", "rpc.v1.Jobs.DirectWorkers", "{}", undone=True)),
    ("keeper", Deed("direct a worker", f"{CONTROL}.workers.house.i1", "{}")),
    ("director", Deed("write other records", f"{CONTROL}.limits.house.i1", "{}")),
    ("director", Deed("hint a worker", "trellis.hints.jobs.workers.house.i1", "", undone=True)),
    ("director", Deed("write an operation", OPERATION, "{}")),
    ("director", call("read an operation", f"DIRECT.GET.JOBS_CONTROL.{OPERATION}")),
    ("director", call("delete workers", "STREAM.PURGE.JOBS_CONTROL", undone=True)),
    ("director", Deed("cancel", "rpc.v1.Jobs.Cancel", "{}", undone=True)),
    ("director", Deed("write an event", f"{JOB}.cancelled", EVENT)),
    ("jobs-admin", Deed("write other records", f"{CONTROL}.limits.house.i1", "{}")),
    ("jobs-admin", call("purge operations", "STREAM.PURGE.JOBS_CONTROL", undone=True)),
    ("provisioner", Deed("write an operation", OPERATION, "{}")),
    ("reader", Deed("release a key", "rpc.v1.Jobs.ReleaseKey", "{}", undone=True)),
    ("reader", Deed("write an event", f"{JOB}.cancelled", EVENT)),
    ("reader", call("read the log", f"DIRECT.GET.JOBS.{JOB}.>")),
    ("reader", call("see streams", "STREAM.INFO.JOBS")),
    ("changer", Deed("read events", "rpc.v1.Jobs.Events", "{}", undone=True)),
    ("changer", Deed("read secrets", "rpc.v1.Jobs.GetSecrets", "{}", undone=True)),
    ("changer", Deed("write an event", f"{JOB}.cancelled", EVENT)),
    ("changer", call("purge", "STREAM.PURGE.JOBS", undone=True)),
    ("watcher", Deed("write an event", f"{JOB}.cancelled", EVENT)),
    ("watcher", Deed("write a key", KEY, "{}")),
    ("watcher", Deed("list jobs", "rpc.v1.Jobs.List", "{}", undone=True)),
    ("watcher", Deed("cancel", "rpc.v1.Jobs.Cancel", "{}", undone=True)),
    ("watcher", call("purge", "STREAM.PURGE.JOBS", undone=True)),
    ("watcher", TO_WORK),
    ("watcher", call("take work", "CONSUMER.MSG.NEXT.JOBS_WORK.house-work", PULL, undone=True)),
    ("jobs-admin", call("delete the log", "STREAM.DELETE.JOBS", undone=True)),
    ("jobs-admin", call("delete the keys", "STREAM.DELETE.KV_JOBS_KEYS", undone=True)),
    ("jobs-admin", call("purge the work", "STREAM.PURGE.JOBS_WORK", undone=True)),
    ("jobs-admin", call("change the log", "STREAM.UPDATE.JOBS", undone=True)),
    ("jobs-admin", call("delete from the log", "STREAM.MSG.DELETE.JOBS", '{"seq":999999}')),
    ("jobs-admin", call("delete the source", "CONSUMER.DELETE.JOBS.to-work", undone=True)),
    ("jobs-admin", call("take work", "CONSUMER.MSG.NEXT.JOBS_WORK.house-work", PULL, undone=True)),
    ("jobs-admin", TO_WORK),
    ("keeper", call("take work", "CONSUMER.MSG.NEXT.JOBS_WORK.house-work", PULL, undone=True)),
    ("keeper", call("delete a queue", "CONSUMER.DELETE.JOBS_WORK.house-work", undone=True)),
    ("keeper", call("pause all job starts", "CONSUMER.PAUSE.JOBS.to-work", undone=True)),
    ("keeper", call("read the log", f"DIRECT.GET.JOBS.{JOB}.>")),
    ("keeper", Deed("write an event", f"{JOB}.cancelled", EVENT)),
    ("provisioner", Deed("write an event", f"{JOB}.cancelled", EVENT)),
    ("provisioner", call("delete the log", "STREAM.DELETE.JOBS", undone=True)),
    ("provisioner", call("purge the log", "STREAM.PURGE.JOBS", undone=True)),
    ("provisioner", call("read the log", f"DIRECT.GET.JOBS.{JOB}.>")),
)


def named(value: object) -> str | None:
    return value.what if isinstance(value, Deed) else None


@pytest.mark.parametrize("deed", [*OF_A_SERVICE, TO_WORK], ids=named)
async def test_a_service_may_not(installation: Installation, deed: Deed) -> None:
    await refused(installation, "garden", deed)


@pytest.mark.parametrize("deed", OF_A_SERVICE, ids=named)
async def test_in_an_account_of_its_own_it_could_not(in_accounts: Installation, deed: Deed) -> None:
    await refused(in_accounts, CARELESS, deed)


@pytest.mark.parametrize(("who", "deed"), OF_OPERATORS, ids=named)
async def test_no_user_has_more_rights_than_it_needs(
    installation: Installation, who: str, deed: Deed
) -> None:
    await refused(installation, who, deed)


async def refused(installation: Installation, who: str, deed: Deed) -> None:
    """And a user with all rights is not refused, where trying does no harm."""
    prefixes = {
        installation.prefixes.get(who, "$JS.API"),
        installation.prefixes["garden"],
        "$JS.API",
    }
    async with installation.connection(who) as meddler:
        for subject in deed.subjects(prefixes):
            # Nothing but his account holds the careless one, where many subjects lead nowhere.
            assert await has_no_effect(meddler, subject, deed.body, bound=who != CARELESS), subject
    if not deed.undone:
        async with installation.connection(ROOT_USER) as root:
            for subject in deed.subjects({"$JS.API"}):
                assert not await has_no_effect(root, subject, deed.body, bound=False), subject


async def has_no_effect(connection: Connection, subject: str, body: str, *, bound: bool) -> bool:
    """It is not permitted; unbound: no server is there to ask, or only one without JetStream."""
    try:
        answer = await connection.request(subject, body.encode(), timeout=2)
    except NotPermitted:
        return True
    except NoResponders:
        return not bound
    if bound:
        return False
    error = json.loads(answer.data or "{}").get("error", {}) if answer.data[:1] == b"{" else {}
    return bool(error.get("err_code") == NOT_ENABLED)


@asynccontextmanager
async def eavesdropper(
    installation: Installation, who: str, subject: str
) -> AsyncIterator[list[str]]:
    heard: list[str] = []
    async with installation.connection(who) as connection:
        for each in (subject, "trellis.jobs.garden.>"):
            await connection.subscribe(each, lambda message: heard.append(message.subject))
        await connection.flush()
        yield heard


LISTENED_TO: Final = (
    ("inboxes", "_INBOX.>", "_INBOX.root.1"),
    ("an inbox of another", "_INBOX_house.>", "_INBOX_house.x.1"),
    ("an inbox of the admin runtime", "_INBOX_jobs-admin.>", "_INBOX_jobs-admin.x.1"),
    ("jobs of another", "trellis.jobs.house.>", f"{JOB}.logged"),
    ("jobs of everybody", "trellis.jobs.>", f"{JOB}.logged"),
    ("presence", "trellis.jobs.workers.>", "trellis.jobs.workers.house.work.i.heartbeat"),
    ("workers of another", "trellis.control.jobs.workers.house.*", f"{CONTROL}.workers.house.i1"),
    ("hints of another", "trellis.hints.jobs.workers.>", "trellis.hints.jobs.workers.house.i1"),
    ("keys of another", "$KV.JOBS_KEYS.house.>", KEY),
    ("work", "trellis.work.>", "trellis.work.house.work.x"),
    ("requests of operators", "rpc.v1.Jobs.*", "rpc.v1.Jobs.Get"),
    ("advisories", "$JS.EVENT.>", "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.JOBS_WORK.x"),
    ("acks of another", "$JS.ACK.>", "$JS.ACK.JOBS_WORK.house-work.1.1.1.1.0"),
    ("JetStream", "$JS.API.>", "$JS.API.STREAM.INFO.JOBS"),
    ("the source", "_src.>", "_src.jobs.x"),
    ("servers", "$SYS.>", "$SYS.x"),
    ("everything", ">", f"{JOB}.logged"),
)


every_ear = pytest.mark.parametrize(
    ("subject", "said"),
    [each[1:] for each in LISTENED_TO],
    ids=[each[0] for each in LISTENED_TO],
)


@every_ear
async def test_a_service_hears_only_what_is_for_it(
    installation: Installation, subject: str, said: str
) -> None:
    await hears_only_its_own(installation, "garden", subject, said)


@every_ear
async def test_nothing_else_comes_into_its_account(
    in_accounts: Installation, subject: str, said: str
) -> None:
    await hears_only_its_own(in_accounts, CARELESS, subject, said)


async def hears_only_its_own(installation: Installation, who: str, subject: str, said: str) -> None:
    """Which is said later than the rest."""
    own = "trellis.jobs.garden.work.x.logged"
    async with (
        eavesdropper(installation, who, subject) as heard,
        installation.connection(ROOT_USER) as root,
    ):
        await root.publish(said, b"secret")
        await root.publish(own, b"own")
        await until(lambda: own in heard, "it receives the message of its own key")
        assert set(heard) <= {own}
