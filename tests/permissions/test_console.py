"""The console's roles are NATS users: the server refuses what a bug in a page would allow."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from jobs_admin.console.connections import Connections, RoleMissing, open_connections
from jobs_admin.console.users import ALL_ROLES, Role, User, nats_user
from tests.console.installation import console_at
from tests.console.lab import SAME_ORIGIN
from tests.permissions.installation import Installation
from tests.permissions.services import Chore, household
from tests.permissions.test_operators_and_the_admin_runtime import admin
from trellis_jobs.errors import NotPermitted
from trellis_jobs.jetstream.client.connect_options import ConnectOptions

ANN = User("ann", ALL_ROLES)
NEW_JOB = "/queues/house/work/new"


def access(installation: Installation, *roles: Role) -> Mapping[Role, ConnectOptions]:
    return {role: installation.access(nats_user(role)) for role in roles}


@asynccontextmanager
async def console(
    installation: Installation, roles: Mapping[Role, ConnectOptions]
) -> AsyncIterator[httpx.AsyncClient]:
    async with (
        console_at(installation.server.url, roles) as address,
        httpx.AsyncClient(base_url=address, headers=SAME_ORIGIN, trust_env=False) as web,
    ):
        yield web


async def test_every_role_may_do_its_part_and_no_more_than_it(
    installation: Installation, tmp_path: Path
) -> None:
    async with (
        admin(installation, tmp_path),
        household(installation.access("house")) as jobs,
        open_connections(access(installation, *Role)) as connections,
    ):
        ref = await jobs.unattended.create(Chore())
        viewer, operator, secrets, creator = (connections.client(ANN, role) for role in Role)
        assert (await viewer.get(ref.id)).id == ref.id
        assert (await viewer.changes(0)).seq > 0
        for refused in (viewer, secrets, creator):
            with pytest.raises(NotPermitted):
                await refused.cancel(ref.id)
        for refused in (viewer, operator, creator):
            with pytest.raises(NotPermitted):
                await refused.secrets(ref.id)
        for refused in (viewer, operator, secrets):
            with pytest.raises(NotPermitted):
                await refused.creation.create("house", "work", {})
        assert (await secrets.secrets(ref.id)).payload
        changed = await operator.cancel(ref.id, reason="a try")
        assert changed.job.state == "cancelled"


async def test_the_server_refuses_a_role_whose_credentials_do_not_permit_it(
    installation: Installation, tmp_path: Path
) -> None:
    """As if a bug gave a viewer every role: the page says so, and nothing has changed."""
    mistaken = dict.fromkeys(Role, installation.access(nats_user(Role.VIEWER)))
    async with (
        admin(installation, tmp_path),
        console(installation, mistaken) as web,
        open_connections(mistaken) as connections,
    ):
        before = (await connections.client(ANN, Role.VIEWER).list_jobs()).count
        form = {"payload/do": "answer", "action": "create"}
        refused = await web.post(NEW_JOB, data=form)
        assert refused.status_code == 403, refused.text
        assert "the NATS server refused it" in refused.text
        assert (await connections.client(ANN, Role.VIEWER).list_jobs()).count == before
    assert "rpc.v1.Jobs.Create" in installation.violations(nats_user(Role.VIEWER))


async def test_a_role_without_credentials_does_not_exist(
    installation: Installation, tmp_path: Path
) -> None:
    refused_before = installation.violations(nats_user(Role.VIEWER))
    async with (
        admin(installation, tmp_path),
        console(installation, access(installation, Role.VIEWER)) as web,
    ):
        for path in ("/", "/jobs", "/new"):
            assert (await web.get(path)).status_code == 200, path
        refused = await web.post(NEW_JOB, data={"payload/do": "answer", "action": "create"})
        assert refused.status_code == 403
        assert "has no credentials for the role create" in refused.text
    assert installation.violations(nats_user(Role.VIEWER)) == refused_before


def test_a_user_has_only_roles_that_the_console_has() -> None:
    connections = Connections({})
    with pytest.raises(RoleMissing, match="no credentials for the role operator"):
        connections.client(ANN, Role.OPERATOR)
