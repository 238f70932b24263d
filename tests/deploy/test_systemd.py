"""The units in deploy/systemd: systemd understands them, and their commands exist."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.docs.blocks import ROOT
from tests.docs.test_commands import complaint
from trellis_jobs.service.service import GRACE

UNITS: Final = sorted((ROOT / "deploy" / "systemd").glob("*.service"))
PROGRAM: Final = re.compile(r"^(Exec\w+=)(/\S+)", re.MULTILINE)

every_unit = pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
ours = pytest.mark.parametrize(
    "unit", [unit for unit in UNITS if "trellis" in unit.name], ids=lambda unit: unit.name
)


def settings(unit: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in re.findall(r"^(\w+)=(.*)$", unit.read_text(), re.MULTILINE):
        found.setdefault(name, []).append(value)
    return found


def the(unit: Path, name: str) -> str:
    [value] = settings(unit)[name]
    return value


@every_unit
def test_systemd_understands_it(unit: Path, tmp_path: Path) -> None:
    """The programs are not on this machine; everything else is as it is."""
    analyse = shutil.which("systemd-analyze")
    if analyse is None:
        pytest.skip("no systemd-analyze here")
    copy = tmp_path / unit.name.replace("@", "@tenants")
    copy.write_text(PROGRAM.sub(r"\1/bin/true", unit.read_text()))
    told = subprocess.run(
        (analyse, "verify", "--man=no", copy), capture_output=True, text=True, check=False
    )
    complaints = [line for line in told.stderr.splitlines() if copy.name in line]
    assert (told.returncode, complaints) == (0, [])


@ours
def test_its_command_exists(unit: Path) -> None:
    program, _, arguments = the(unit, "ExecStart").partition(" ")
    assert Path(program).name == "trellis-jobs"
    assert complaint(f"trellis-jobs {arguments}") is None


def test_the_server_runs_a_configuration_that_is_there() -> None:
    [unit] = [unit for unit in UNITS if unit.name == "nats-server.service"]
    config = Path(the(unit, "ExecStart").rpartition(" ")[2])
    assert config.parent == Path("/etc/nats")
    assert (ROOT / "deploy" / "nats" / config.name).exists()
    assert the(unit, "ExecStartPre").endswith(f"-t -c {config}")


@ours
def test_its_seed_is_handed_over_as_a_credential(unit: Path) -> None:
    assert the(unit, "LoadCredential").startswith("nkey:/etc/trellis-jobs/")
    assert the(unit, "Environment") == "NATS_NKEY=%d/nkey"


def test_a_worker_is_killed_only_after_its_grace() -> None:
    [unit] = [unit for unit in UNITS if "worker" in unit.name]
    [grace] = re.findall(r"--grace (\d+)", the(unit, "ExecStart"))
    assert float(grace) == GRACE
    assert int(the(unit, "TimeoutStopSec")) >= int(grace) + 5


@every_unit
def test_it_runs_as_an_ordinary_user_and_writes_only_its_own(unit: Path) -> None:
    given = settings(unit)
    assert "DynamicUser" in given or the(unit, "User") != "root"
    assert the(unit, "ProtectSystem") == "strict"
    assert the(unit, "NoNewPrivileges") == "yes"
    assert the(unit, "CapabilityBoundingSet") == ""
    assert the(unit, "Restart") == "on-failure"
