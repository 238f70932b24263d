"""`trellis-jobs permissions`: what it prints, for whom, and what it does not take for a name."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import orjson
import pytest

from jobs_admin.api.contract import RPCS
from jobs_admin.cli.exit_codes import Exit
from tests.cli.shell import Ended, shell
from tests.permissions.services import HOUSE as HOUSE_JOBS
from tests.support.fork_server import ROOT
from trellis_jobs.contract.declaration import JobType, ServiceContract
from trellis_jobs.contract.manifest import to_manifest
from trellis_jobs.contract.payload_types import PayloadType
from trellis_jobs.embedded import EmbeddedServer, EmbeddedServerFailed
from trellis_jobs.jetstream.client.user_keys import ensure_seed
from trellis_jobs.model import subjects

HOUSE = "tests.permissions.services:house"

KEY = "UAEUV3BJXFI3HP6ECKCFHGEW3PFPZ4E6N4XMPKZJDSCPRJJAZTKTKXVE"


def asked(*arguments: str) -> Ended:
    return shell("permissions", *arguments)


def told(*arguments: str) -> dict[str, Any]:
    ended = asked(*arguments, "--json")
    assert ended.code == 0, ended.err
    document: dict[str, Any] = ended.json
    return document


def user(document: dict[str, Any], name: str) -> dict[str, Any]:
    users = document["config"]["authorization"]["users"]
    found: dict[str, Any] = next(each for each in users if each.get("user") == name)
    return found


def published(document: dict[str, Any], name: str) -> set[str]:
    return set(user(document, name)["permissions"]["publish"]["allow"])


def test_a_manifest_says_as_much_as_the_code(tmp_path: Path) -> None:
    file = tmp_path / "house.json"
    file.write_bytes(orjson.dumps(to_manifest(HOUSE_JOBS.contract)))
    assert told("--service", str(file)) == told("--service", HOUSE)


def test_every_request_is_for_readers_or_for_changers_and_for_no_one_else() -> None:
    who = ("ann=read", "bob=mutate", "eve=stream", "sue=secrets", "joe=workers", "kim=create")
    document = told(*(word for each in who for word in ("--operator", each)))
    reads, changes = published(document, "ann"), published(document, "bob")
    secrets, workers = published(document, "sue"), published(document, "joe")
    assert workers & reads == {subjects.rpc(f"Jobs.List{each}") for each in ("Workers", "Services")}
    assert not workers & changes
    creates = published(document, "kim")
    for_forms = ("Get", "GetContract", "Health", "ListQueues", "RecentPayloads")
    assert creates & reads == {subjects.rpc(f"Jobs.{name}") for name in for_forms}
    assert creates - reads == {subjects.rpc("Jobs.Create")}
    of_all = reads | changes | secrets | workers | creates
    assert of_all == {subjects.rpc(method) for method in RPCS}
    of_both = ("Get", "GetOperation", "Health", "List", "ListOperations")
    assert reads & changes == {subjects.rpc(f"Jobs.{name}") for name in of_both}
    assert not secrets & (reads | changes | workers)
    assert not any("rpc" in subject for subject in published(document, "eve"))
    both = told("--operator", "read,mutate", "--name", "ann")
    assert published(both, "ann") == reads | changes
    assert both == told("--operator", "ann=read", "--operator", "ann=mutate")


@pytest.mark.parametrize("shape", ["users", "accounts"])
def test_the_text_says_the_same_as_the_json(shape: str) -> None:
    """But for passwords: the text has the server read them, the JSON names their variables."""
    who = ("--service", HOUSE, "--admin", "--provisioner", "--operator", "ann=read,stream")
    keyed = (*who, "--nkey", f"house={KEY}", "--shape", shape)
    ended, document = asked(*keyed), told(*keyed)
    bare = re.sub(r"^ *#.*$", "", ended.out, flags=re.MULTILINE)
    quoted = set(re.findall(r'"([^"]+)"', bare))
    variables = set(re.findall(r"password: \$(\w+)", ended.out))
    assert quoted == words_of(document["config"]) - variables
    assert {each["name"] for each in document["users"]} == {
        "house",
        "jobs-admin",
        "provisioner",
        "ann",
    }
    assert re.findall(r"password: (\S+)", ended.out) == [
        "$JOBS_ADMIN_PASSWORD",
        "$PROVISIONER_PASSWORD",
        "$ANN_PASSWORD",
    ]


def words_of(config: Any) -> set[str]:
    if isinstance(config, dict):
        return set[str]().union(*map(words_of, config.values()))
    if isinstance(config, list):
        return set[str]().union(*map(words_of, config))
    return {config} if isinstance(config, str) else set()


WHO = ("--service", HOUSE, "--admin", "--shape", "accounts")


def test_the_json_is_configuration_too(tmp_path: Path) -> None:
    keys = [f"{name}={ensure_seed(tmp_path / name)}" for name in ("house", "jobs-admin")]
    config = told(*WHO, *(word for key in keys for word in ("--nkey", key)))["config"]
    with EmbeddedServer.start(config=json.dumps(config)) as server:
        assert server.port


def test_a_server_does_not_start_with_a_user_without_a_password() -> None:
    document = told(*WHO)
    [admin] = document["config"]["accounts"]["PLATFORM"]["users"]
    assert admin["password"] == {"environment": "JOBS_ADMIN_PASSWORD"}
    with (
        pytest.raises(EmbeddedServerFailed, match="not string"),
        EmbeddedServer.start(config=json.dumps(document["config"])),
    ):
        pass


def manifest(folder: Path, service: str, *queues: str) -> str:
    types = [
        JobType(name=name, payload=PayloadType(str), result=PayloadType(str)) for name in queues
    ]
    contract = ServiceContract(service, {each.name: each for each in types})
    file = folder / f"{service}-{len(queues)}.json"
    file.write_bytes(orjson.dumps(to_manifest(contract)))
    return str(file)


@pytest.mark.parametrize(
    ("services", "why"),
    [
        ([("a", "b-c"), ("a-b", "c")], "a/b-c and a-b/c would share the consumer a-b-c"),
        ([("a-b", "x"), ("a_b", "y")], "would have the same password, $A_B_PASSWORD"),
        ([("Shop", "x"), ("shop", "y", "z")], "would have the same password, $SHOP_PASSWORD"),
        ([("PLATFORM", "x")], "'PLATFORM' is a reserved account"),
        ([("SYS", "x")], "'SYS' is a reserved account"),
        ([("OPERATORS", "x")], "'OPERATORS' is a reserved account"),
    ],
)
def test_services_that_would_reach_what_is_anothers_are_refused(
    tmp_path: Path, services: list[tuple[str, ...]], why: str
) -> None:
    files = [manifest(tmp_path, *each) for each in services]
    ended = asked(*(word for file in files for word in ("--service", file)))
    assert (ended.code, ended.out) == (Exit.REFUSED, "")
    assert why in ended.err


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ((), "name at least one user"),
        (
            ("--operator", "ann=write"),
            "'write' is not one of read, mutate, secrets, workers, create, queues, worker-records, "
            "stream",
        ),
        (("--operator", "a.nn=read"), "is not a valid subject token"),
        (("--admin", "--provisioner", "--name", "x"), "two users are called"),
        (("--operator", "jobs-admin=read", "--admin"), "two users are called"),
        (("--service", HOUSE, "--name", "x"), "a service takes its user name from its contract"),
        (("--admin", "--nkey", f"ann={KEY}"), "no user is called ann"),
        (("--admin", "--nkey", "jobs-admin=SUSECRET"), "starts with U"),
        (("--service", "house"), "MODULE:SERVICE"),
    ],
)
def test_what_cannot_be_is_said(arguments: tuple[str, ...], why: str) -> None:
    ended = asked(*arguments)
    assert ended.code == Exit.USAGE
    assert why in " ".join(re.sub(r"[│╭╰─]", " ", ended.err).split())
    assert "SUSECRET" not in ended.err


def test_the_page_shows_what_is_printed() -> None:
    page = (ROOT / "docs" / "operate" / "permissions.md").read_text()
    (block,) = re.findall(r"```console\n\$ trellis-jobs (.+)\n((?:.*\n)*?)```", page)
    assert shell(*block[0].split()).out == block[1]
