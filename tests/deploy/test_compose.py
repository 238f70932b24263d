"""docker-compose.yml without Docker: everything it names is there.

That its commands do what they should is seen in test_cluster.py, which runs them.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any, Final

import pytest

from tests.deploy.compose import OUR_IMAGE, Container, containers, read
from tests.deploy.installation import NODES, made_by_following_the_page
from tests.docs.test_commands import complaint
from trellis_jobs.service.service import GRACE

SERVER_IMAGE: Final = "nats:2.15-alpine"
ALL: Final = containers()
ONCE: Final = ("provision", "operator")
ADMINS: Final = ("admin-1", "admin-2")

every_container = pytest.mark.parametrize("container", ALL.values(), ids=ALL)
ours = pytest.mark.parametrize(
    "container", [each for each in ALL.values() if each.is_ours], ids=lambda each: each.name
)
long_lived = pytest.mark.parametrize(
    "container",
    [each for each in ALL.values() if each.name not in ONCE],
    ids=lambda each: each.name,
)


def seconds(duration: str) -> float:
    number, unit = re.fullmatch(r"(\d+)(s|m)", duration).groups()  # type: ignore[union-attr]
    return float(number) * (60 if unit == "m" else 1)


def test_the_whole_installation_is_there() -> None:
    assert set(ALL) == {*NODES, *ADMINS, *ONCE, "worker", "service"}


@every_container
def test_images_are_the_servers_and_our_own(container: Container) -> None:
    assert container.settings["image"] in (SERVER_IMAGE, OUR_IMAGE)
    assert ("build" in container.settings) == container.is_ours


@ours
def test_every_command_exists(container: Container) -> None:
    program, *arguments = container.command
    if program == "trellis-jobs":
        assert complaint(" ".join(container.command)) is None
        return
    assert (program, arguments[0]) == ("python", "-m")
    assert importlib.util.find_spec(arguments[1]) is not None


@ours
def test_what_commands_read_is_mounted(container: Container) -> None:
    """Every path that the environment or the command names is a file or a volume inside."""
    named = [*container.environment.values(), *container.command]
    paths = {each for each in named if each.startswith("/")}
    inside = (*container.files, *container.volumes)
    assert all(path.startswith(inside) for path in paths), paths


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_by_following_the_page(tmp_path_factory.mktemp("repository"))


@every_container
def test_what_is_mounted_is_there_once_the_page_was_followed(
    container: Container, prepared: Path
) -> None:
    missing = [file for file in container.files.values() if not (prepared / file).exists()]
    assert missing == []


def test_only_the_page_makes_secrets(prepared: Path) -> None:
    """All that is made is mounted somewhere, but for the key of the authority."""
    made = {f"./deploy/secrets/{file.name}" for file in (prepared / "deploy/secrets").iterdir()}
    mounted = {each["file"] for each in read()["secrets"].values()}
    assert made - mounted == {"./deploy/secrets/ca.key"}
    assert mounted <= made


def test_each_container_has_only_its_own_secrets() -> None:
    seeds = {
        name: {Path(path).stem for path in container.files.values() if path.endswith(".nk")}
        for name, container in ALL.items()
    }
    assert seeds == {
        **{node: set() for node in NODES},
        **{admin: {"jobs-admin"} for admin in ADMINS},
        "provision": {"provisioner", "sys"},
        "worker": {"tenants"},
        "service": {"tenants"},
        "operator": {"ann"},
    }


def test_nothing_secret_is_written_into_the_file() -> None:
    told = [value for each in ALL.values() for value in each.environment.values()]
    assert not any(re.search(r"password|://[^/]*@|SU[A-Z2-7]{20}", value) for value in told)


@long_lived
def test_a_long_running_container_is_started_again_and_has_limits(container: Container) -> None:
    assert container.settings["restart"] == "unless-stopped"
    limits = container.settings["deploy"]["resources"]["limits"]
    assert set(limits) == {"cpus", "memory"}


@long_lived
def test_a_long_running_container_has_a_health_check(container: Container) -> None:
    """But the one that only creates jobs, which ends if something is wrong."""
    check: dict[str, Any] = container.settings["healthcheck"]
    if container.name == "service":
        assert check == {"disable": True}
        return
    assert check["test"][0] == "CMD"
    probe = check["test"][-1]
    assert ("/ready" if container.is_ours else "/healthz") in probe
    if container.is_ours:
        compile(probe, "probe", "exec")
    assert seconds(check["timeout"]) <= seconds(check["interval"])
    assert check["retries"] >= 3


def test_every_node_and_every_admin_runtime_has_a_volume_of_its_own() -> None:
    keeping = [ALL[name].volumes for name in (*NODES, *ADMINS)]
    assert [set(each) for each in keeping] == [{"/var/lib/nats"}] * 3 + [{"/var/lib/trellis"}] * 2
    used = [name for each in keeping for name in each.values()]
    assert sorted(used) == sorted(read()["volumes"])


def test_only_this_machine_reaches_it() -> None:
    published = {
        name: each.settings["ports"] for name, each in ALL.items() if "ports" in each.settings
    }
    assert published == {"nats-1": ["127.0.0.1:4222:4222"]}


def test_the_streams_are_made_before_they_are_used() -> None:
    for name in ("worker", "service", *ADMINS):
        waits = ALL[name].settings["depends_on"]
        assert waits == {"provision": {"condition": "service_completed_successfully"}}
    for node in NODES:
        assert ALL["provision"].settings["depends_on"][node] == {"condition": "service_healthy"}


def test_a_worker_is_killed_only_after_its_grace() -> None:
    assert seconds(ALL["worker"].settings["stop_grace_period"]) >= GRACE + 5


@ours
def test_our_containers_have_no_rights_they_do_not_need(container: Container) -> None:
    assert container.settings["read_only"] is True
    assert container.settings["cap_drop"] == ["ALL"]
    assert container.settings["security_opt"] == ["no-new-privileges:true"]
