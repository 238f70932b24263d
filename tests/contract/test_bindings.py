"""Names that a deployment has chosen, opaque ones too."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, Final

import pytest

from jobs_admin.api.client import AdminClient
from jobs_admin.api.reasons import Because
from tests.admin.admin_lab import daemon_at, until_shown
from tests.support.lab import probe
from trellis_jobs import (
    ActiveJob,
    Bindings,
    DeclarationError,
    Jobs,
    JobState,
    KeyConcurrency,
    Service,
    Workers,
    job,
)
from trellis_jobs.contract.permissions import grants
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.jetstream.client import api


class HelpdeskJobs(Jobs, service="helpdesk"):
    sync_tickets = job(str, str, key=KeyConcurrency(["tickets"]), ack_wait=1)
    close = job(str, str, ack_wait=1)


def queue(token: str, consumer: str) -> dict[str, Any]:
    """As the original's service bootstrap tells it; most of it the contract says too."""
    return {
        "queueType": "sync",
        "publishPrefix": f"trellis.jobs.tr_jobs_01J.{token}",
        "workSubject": f"trellis.work.tr_jobs_01J.{token}",
        "consumerName": consumer,
        "payload": {"schema": "P"},
        "maxDeliver": 5,
    }


OPAQUE: Final[dict[str, Any]] = {
    "namespace": "tr_jobs_01J",
    "workStream": "JOBS_WORK",
    "queues": {
        "sync-tickets": queue("tr_jq_1", "tr_jobs_01J_tr_jq_1"),
        "close": queue("tr_jq_2", "tr_jobs_01J_tr_jq_2"),
        "not-ours-yet": queue("tr_jq_3", "tr_jobs_01J_tr_jq_3"),
    },
}


def bound() -> Service[HelpdeskJobs]:
    service = Service(HelpdeskJobs, bindings=Bindings.from_json(OPAQUE))

    @service.jobs.sync_tickets.handle
    @service.jobs.close.handle
    async def answer(job: ActiveJob[str]) -> str:
        return f"{job.payload} done"

    return service


async def test_a_service_works_under_opaque_names(server: EmbeddedServer, tmp_path: Path) -> None:
    service = bound()
    async with (
        service.connect(server.url, workers=Workers(queues=["sync-tickets"])),
        daemon_at(server.url, tmp_path / "jobs.sqlite"),
        AdminClient.connect(server.url) as admin,
        probe(server.url) as raw,
    ):
        ref = await service.jobs.sync_tickets.create("eu")
        assert await ref.wait(timeout=10) == "eu done"
        assert (ref.address.service, ref.address.job_type) == ("tr_jobs_01J", "tr_jq_1")
        await until_shown(admin, [ref.id], JobState.COMPLETED)
        info = await api.request(raw.connection, "CONSUMER.INFO.JOBS_WORK.tr_jobs_01J_tr_jq_1")
        assert info["config"]["filter_subject"] == "trellis.work.tr_jobs_01J.tr_jq_1.*"
        keys = await api.request(raw.connection, "STREAM.INFO.KV_JOBS_KEYS")
        assert keys["config"]["name"] == "KV_JOBS_KEYS"

        waiting = await service.jobs.close.create("eu")
        told = await admin.explain(waiting.id)
        assert told.because is Because.NO_WORKER


def test_its_rights_are_those_of_its_names() -> None:
    published = [
        subject for grant in grants.of_service(bound().contract).grants for subject in grant.publish
    ]
    assert "$JS.API.CONSUMER.MSG.NEXT.JOBS_WORK.tr_jobs_01J_tr_jq_1" in published
    assert not [subject for subject in published if "helpdesk" in subject]


def test_canonical_names_change_nothing() -> None:
    canonical = {
        "namespace": "helpdesk",
        "queues": {
            name: {
                "publishPrefix": f"trellis.jobs.helpdesk.{name}",
                "workSubject": f"trellis.work.helpdesk.{name}.*",
                "consumerName": f"helpdesk-{name}",
            }
            for name in ("sync-tickets", "close")
        },
    }
    service = Service(HelpdeskJobs, bindings=Bindings.from_json(canonical))
    assert service.contract.service == "helpdesk"
    assert service.contract.queues.keys() == HelpdeskJobs.contract.queues.keys()


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda b: b.pop("namespace"), "not valid bindings: namespace: Field required"),
        (lambda b: b.update(namespace="workers"), "publishPrefix: must belong to namespace"),
        (lambda b: b.update(workStream="OTHER"), "workStream: must be JOBS_WORK"),
        (lambda b: b["queues"]["close"].pop("consumerName"), "queues.close.consumerName: "),
        (
            lambda b: [each.update(consumerName="same") for each in b["queues"].values()],
            "queues: two queues have the same consumerName",
        ),
        (
            lambda b: b["queues"]["close"].update(publishPrefix="trellis.jobs.other.x"),
            "queues.close.publishPrefix: must belong to namespace 'tr_jobs_01J'",
        ),
        (
            lambda b: b["queues"]["close"].update(workSubject="trellis.work.tr_jobs_01J.x"),
            "queues.close.workSubject: must belong to the same queue as publishPrefix",
        ),
        (
            lambda b: b["queues"].update(close=b["queues"]["sync-tickets"]),
            "two queues have the same publishPrefix",
        ),
        (lambda b: b["queues"].pop("close"), "service 'helpdesk': the bindings lack close"),
    ],
)
def test_bindings_that_cannot_be_are_refused_by_their_place(change: Any, complaint: str) -> None:
    wrong = copy.deepcopy(OPAQUE)
    change(wrong)
    with pytest.raises(DeclarationError) as refused:
        Service(HelpdeskJobs, bindings=Bindings.from_json(wrong))
    assert complaint in str(refused.value)
