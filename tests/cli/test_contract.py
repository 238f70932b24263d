"""`trellis-jobs contract`: the manifest of a service, what a change of it means, code from it."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.cli.command import environment
from tests.cli.shell import shell
from tests.cli.shop import ShopJobs
from tests.cli.stage import Place, Stage, stage
from tests.cli.vault import PIN
from tests.support.fork_server import ROOT
from tests.support.lab import probe
from trellis_jobs import Service
from trellis_jobs.contract.consumer_metadata import CONTRACT
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.jetstream.client import api

SHOP = "tests.cli.shop:service"
CHANGED = "tests.cli.changed_shop:service"
VAULT = "tests.cli.vault:service"
LOOSER = "tests.cli.changed_shop:looser"
SCHEMA = Draft202012Validator(json.loads((ROOT / "contracts/manifest.schema.json").read_text()))


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with stage(tmp_path_factory.mktemp("stage")) as made:
        yield made


def judged(told: Any) -> dict[tuple[str, str], str]:
    return {(each["queue"], each["field"]): each["weight"] for each in told["changes"]}


def test_a_manifest_is_shown_of_a_service_its_class_and_a_file(tmp_path: Path) -> None:
    shown = shell("contract", "show", SHOP)
    assert shown.code == 0, shown.err
    SCHEMA.validate(shown.json)
    assert sorted(shown.json["jobs"]) == ["greet", "nap", "shrug", "unhandled"]
    file = tmp_path / "shop.json"
    written = shell("contract", "show", "tests.cli.shop:ShopJobs", "--out", str(file))
    assert (written.code, written.out) == (0, "")
    assert file.read_text() == shown.out
    assert shell("contract", "show", str(file), "--json").out == shown.out


@pytest.mark.parametrize(
    ("named", "code", "complaint"),
    [
        ("tests.cli.shop:price", 1, "neither a trellis_jobs.Service nor a Jobs class"),
        ("tests.cli.shop:nothing", 1, "has no attribute 'nothing'"),
        ("no/such/file.json", 2, "neither an existing file nor MODULE:SERVICE"),
    ],
)
def test_what_names_no_contract_is_refused(named: str, code: int, complaint: str) -> None:
    ended = shell("contract", "show", named)
    assert (ended.code, ended.out) == (code, "")
    assert complaint in ended.err


def test_a_file_that_is_no_manifest_is_refused_by_its_place(tmp_path: Path) -> None:
    broken = shell("contract", "show", SHOP).json
    broken["jobs"]["nap"]["ackWaitMs"] = "long"
    file = tmp_path / "broken.json"
    file.write_text(json.dumps(broken))
    for command in (("show",), ("diff", SHOP), ("generate",)):
        ended = shell("contract", *command, str(file))
        assert (ended.code, ended.out) == (1, "")
        assert f"{file}: not a manifest: jobs.nap.ackWaitMs: " in ended.err


def test_a_diff_tells_each_change_and_ends_with_1_for_a_migration() -> None:
    ended = shell("contract", "diff", SHOP, CHANGED, "--json")
    assert ended.code == 1
    assert (ended.json["service"], ended.json["migration"]) == ("shop", True)
    assert judged(ended.json) == {
        ("greet", "maxDeliver"): "migration",
        ("greet", "payload"): "migration",
        ("nap", "concurrency"): "update",
        ("unhandled", ""): "migration",
        ("wave", ""): "update",
    }
    assert all(each["why"] for each in ended.json["changes"])

    updates = shell("contract", "diff", SHOP, LOOSER)
    assert updates.code == 0
    assert "1000 → 2000" in updates.out
    same = shell("contract", "diff", SHOP, "tests.cli.shop:ShopJobs")
    assert (same.code, same.out, same.err) == (0, "", "No changes.\n")


def test_a_diff_shows_when_schedules_create_jobs_before_and_after() -> None:
    ended = shell("contract", "diff", "tests.cli.office:service", "tests.cli.office:changed")
    assert ended.code == 1, "a schedule that is removed needs attention"
    rows = [re.split(r"  +", line)[:4] for line in ended.out.splitlines()[1:]]
    zone = "(Europe/Berlin)"
    assert rows == [
        ["migration", "report", "schedules.hourly", "every 1 h → none"],
        ["update", "report", "schedules.nightly", f"30 2 * * * {zone} → 30 3 * * * {zone}"],
        ["update", "report", "schedules.noon", "none → 0 12 * * * (UTC)"],
    ]


def test_files_that_differ_in_an_unknown_field_are_a_migration(tmp_path: Path) -> None:
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    printed = shell("contract", "show", SHOP).json
    printed["jobs"]["greet"]["docs"] = {"summary": "Greets."}
    old.write_text(json.dumps(printed))
    assert shell("contract", "show", str(old)).json == printed
    printed["jobs"]["greet"]["ordering"] = "strict"
    printed["jobs"]["nap"]["payload"]["codec"] = "zstd"
    new.write_text(json.dumps(printed))
    ended = shell("contract", "diff", str(old), str(new), "--json")
    assert ended.code == 1
    assert judged(ended.json) == {
        ("greet", "ordering"): "migration",
        ("nap", "payload"): "migration",
    }


def test_on_a_terminal_it_fits(there: Stage) -> None:
    ended = there.at_terminal("contract", "diff", SHOP, CHANGED, columns=80)
    assert ended.code == 1
    assert not [line for line in ended.plain.splitlines() if len(line) > 80]
    assert "migration  greet" in ended.plain


def test_what_the_server_was_told_is_compared_too(server: EmbeddedServer) -> None:
    there = Place(server.url)
    there.shell("infra", "apply")
    unknown = there.shell("contract", "diff", "server", SHOP)
    assert unknown.code == 3
    assert "the server has no contract of shop" in unknown.err
    there.shell("infra", "apply", "--app", SHOP)
    assert there.shell("contract", "diff", "server", SHOP, "--json").json["changes"] == []
    newer = there.shell("contract", "diff", "server", CHANGED, "--json")
    assert newer.code == 1
    assert newer.json == shell("contract", "diff", SHOP, CHANGED, "--json").json
    assert there.shell("contract", "diff", "server", "server").code == 2
    away = there.shell("contract", "diff", "server", SHOP, "--nats", "nats://127.0.0.1:1")
    assert (away.code, away.out) == (4, "")


def _tell(url: str, consumer: str, metadata: dict[str, str]) -> None:
    """Another note than its service would have written."""

    async def tell() -> None:
        async with probe(url) as there:
            found = await api.request(there.connection, f"CONSUMER.INFO.JOBS_WORK.{consumer}")
            config = {**found["config"], "metadata": metadata}
            body = {"stream_name": "JOBS_WORK", "action": "update", "config": config}
            call = f"CONSUMER.CREATE.JOBS_WORK.{consumer}.{config['filter_subject']}"
            await api.request(there.connection, call, body)

    asyncio.run(tell())


@pytest.mark.parametrize("metadata", [{}, {CONTRACT: "{"}])
def test_a_queue_whose_contract_cannot_be_read_is_a_migration(
    server: EmbeddedServer, metadata: dict[str, str]
) -> None:
    there = Place(server.url)
    there.shell("infra", "apply", "--app", SHOP)
    _tell(server.url, "shop-greet", metadata)
    refused = there.shell("infra", "apply", "--app", SHOP, "--yes", "--json")
    assert refused.code == 1
    assert judged(refused.json["contract"]) == {("greet", ""): "migration"}
    assert there.shell("infra", "apply", "--app", SHOP, "--yes", "--accept-migration").code == 0
    assert there.shell("contract", "diff", "server", SHOP, "--json").json["changes"] == []


def test_what_a_later_version_told_the_server_is_compared(server: EmbeddedServer) -> None:
    there = Place(server.url)
    there.shell("infra", "apply", "--app", SHOP)
    note = shell("contract", "show", SHOP).json
    greet = {**note["jobs"]["greet"], "ordering": "strict"}
    _tell(server.url, "shop-greet", {CONTRACT: json.dumps({**note, "jobs": {"greet": greet}})})
    ended = there.shell("contract", "diff", "server", SHOP, "--json")
    assert judged(ended.json) == {("greet", "ordering"): "migration"}


def test_types_that_are_too_large_to_be_told_are_compared_by_their_digest(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    there = Place(server.url)
    there.shell("infra", "apply", "--app", VAULT)
    assert there.shell("contract", "diff", "server", VAULT, "--json").json["changes"] == []
    changed = shell("contract", "show", VAULT).json
    changed["jobs"]["hide-pin"]["payload"]["schema"]["properties"]["where"]["maxLength"] = 3
    file = tmp_path / "vault.json"
    file.write_text(json.dumps(changed))
    ended = there.shell("contract", "diff", "server", str(file), "--json")
    assert judged(ended.json) == {("hide-pin", "payload"): "migration"}


def test_what_is_secret_in_a_type_too_large_to_be_told_is_not_shown(server: EmbeddedServer) -> None:
    there = Place(server.url)
    there.shell("infra", "apply", "--app", VAULT)
    hiding = json.dumps({"pin": PIN, "where": "cellar"})
    made = there.shell("jobs", "create", "vault/hide-pin", hiding, "--json")
    assert made.code == 0, made.err
    for command in (("get", made.json["id"], "--json"), ("events", made.json["id"], "--raw")):
        shown = there.shell("jobs", *command)
        assert "[secret]" in shown.out
        assert PIN not in shown.out


def test_a_module_is_generated_that_says_the_same(tmp_path: Path) -> None:
    manifest, module = tmp_path / "shop.json", tmp_path / "shop_client.py"
    shell("contract", "show", SHOP, "--out", str(manifest))
    made = shell("contract", "generate", str(manifest), "--out", str(module))
    assert (made.code, made.out) == (0, "")
    shown = subprocess.run(
        (sys.executable, "-m", "jobs_admin.cli", "contract", "show", "shop_client:ShopJobs"),
        cwd=tmp_path,
        env=environment({"PYTHONPATH": str(ROOT)}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert shown.stdout == manifest.read_text(), shown.stderr
    assert shell("contract", "generate", str(manifest)).out == module.read_text()


def test_what_cannot_be_generated_is_refused_by_its_place(tmp_path: Path) -> None:
    odd = shell("contract", "show", SHOP).json
    odd["jobs"]["nap"]["payload"]["schema"] = {"anyOf": [{"type": "number"}, {"type": "null"}]}
    file = tmp_path / "odd.json"
    file.write_text(json.dumps(odd))
    ended = shell("contract", "generate", str(file))
    assert (ended.code, ended.out) == (1, "")
    assert "jobs.nap.payload: float | None is not a class" in ended.err


async def _create(url: str, count: int) -> None:
    service = Service(ShopJobs)
    async with service.connect(url, workers=False):
        for n in range(count):
            await service.jobs.greet.create(str(n))


def test_a_migration_is_applied_only_when_it_is_accepted(there: Stage) -> None:
    assert there.shell("infra", "apply", "--app", SHOP).code == 0
    asyncio.run(_create(there.url, 3))

    refused = there.shell("infra", "apply", "--app", CHANGED, "--yes")
    assert refused.code == 1
    assert "see above: add --accept-migration to apply it; nothing was changed" in refused.err
    assert "unfinished jobs of shop/greet: 3 pending" in refused.err
    assert "unfinished jobs of shop/unhandled: none" in refused.err
    assert there.shell("contract", "diff", "server", SHOP, "--json").json["changes"] == []

    told = there.shell("infra", "plan", "--app", CHANGED, "--json").json["contract"]
    assert told["migration"] is True
    assert told["outstanding"]["shop/greet"] == {
        "active": 0,
        "pending": 3,
        "retry": 0,
        "scheduled": 0,
    }

    accepted = there.shell("infra", "apply", "--app", CHANGED, "--yes", "--accept-migration")
    assert accepted.code == 0, accepted.err
    left = there.shell("contract", "diff", "server", CHANGED, "--json").json["changes"]
    assert [each["queue"] for each in left] == ["unhandled"], "its consumer is left alone"


def test_without_an_admin_runtime_the_server_is_counted(server: EmbeddedServer) -> None:
    there = Place(server.url)
    there.shell("infra", "apply", "--app", SHOP)
    asyncio.run(_create(there.url, 2))
    refused = there.shell("infra", "apply", "--app", CHANGED, "--yes")
    assert refused.code == 1
    assert "unfinished jobs of shop/greet: 2 waiting" in refused.err


def test_an_update_is_applied_as_before(server: EmbeddedServer) -> None:
    there = Place(server.url)
    there.shell("infra", "apply", "--app", SHOP)
    applied = there.shell("infra", "apply", "--app", LOOSER, "--yes", "--json")
    assert applied.code == 0
    assert applied.json["contract"]["migration"] is False
