"""The Dockerfile without Docker: what it copies is there, and it runs as an ordinary user."""

from __future__ import annotations

import json
import re
import tomllib
from fnmatch import fnmatch
from typing import Final

from jobs_admin.cli.worker.run import worker
from tests.deploy.compose import containers
from tests.docs.blocks import ROOT

TEXT: Final = (ROOT / "Dockerfile").read_text(encoding="utf-8")
PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def instructions(name: str) -> list[str]:
    joined = re.sub(r"\\\n", " ", TEXT)
    return re.findall(rf"^{name} +(.*)$", joined, re.MULTILINE)


def copied() -> list[str]:
    ours = [line.split() for line in instructions("COPY") if not line.startswith("--from")]
    return [source for words in ours for source in words[:-1]]


def test_what_is_copied_is_there_and_let_through() -> None:
    rules = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    kept = {rule.removeprefix("!") for rule in rules if rule.startswith("!")}
    assert "*" in rules
    assert set(copied()) == kept
    assert all((ROOT / source).exists() for source in copied())


def test_everything_the_package_is_made_of_is_copied() -> None:
    wheel = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    project = PROJECT["project"]
    assert {*wheel, project["readme"], *project["license-files"]} <= set(copied())


def test_it_runs_as_an_ordinary_user() -> None:
    *_, last = instructions("USER")
    assert last == "trellis"
    assert re.search(r"useradd --uid \"\$USER_ID\" .*trellis", TEXT)


def test_only_exact_versions_are_installed_and_no_tools_stay() -> None:
    [install] = [line for line in instructions("RUN") if "pip install" in line]
    assert "-c constraints.txt" in install
    assert "--index" not in TEXT
    assert not any(fnmatch(word, "*://*") for word in install.split())
    assert len(instructions("FROM")) == 2


def test_its_health_is_asked_where_it_is_told() -> None:
    [check] = instructions("HEALTHCHECK")
    probe = json.loads(check.partition("CMD ")[2])
    [variables] = instructions("ENV")
    [port] = re.findall(r"TRELLIS_JOBS_HEALTH_PORT=(\d+)", variables)
    assert f"127.0.0.1:{port}/ready" in probe[-1]
    assert instructions("EXPOSE") == [port]
    assert "health_port" in worker.__annotations__
    assert "TRELLIS_JOBS_HEALTH_HOST=0.0.0.0" in variables  # probes come from outside of it
    for name in ("admin-1", "worker"):
        assert containers()[name].settings["healthcheck"]["test"] == ["CMD", *probe]


def test_it_is_the_command() -> None:
    [entry] = instructions("ENTRYPOINT")
    assert json.loads(entry)[0] in PROJECT["project"]["scripts"]
