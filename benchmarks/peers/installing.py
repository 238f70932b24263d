"""Makes what the peers need: a virtual environment each, and the packages of their servers."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks.peers.contestants import Contestant
from benchmarks.peers.stage import ENVIRONMENTS
from benchmarks.peers.trial import Broker

REQUIREMENTS: Final = Path(__file__).parent / "requirements"
# The Debian package of a server, and where it is once it is installed.
PACKAGES: Final = {
    Broker.REDIS: ("redis-server", "usr/bin/redis-server"),
    Broker.RABBITMQ: ("rabbitmq-server", "usr/lib/rabbitmq/lib/*/sbin/rabbitmq-server"),
    Broker.POSTGRES: ("postgresql", "usr/lib/postgresql/*/bin/initdb"),
}
# Asked by Debian's packages whether they may start their service: 101 is no.
POLICY: Final = Path("/usr/sbin/policy-rc.d")
NEVER: Final = "#!/bin/sh\nexit 101\n"

Say = Callable[[str], None]


def install(contestants: Iterable[Contestant], say: Say) -> None:
    """What cannot be installed is told; who needs it has no figures, and the others have."""
    chosen = list(contestants)
    for broker in dict.fromkeys(broker for one in chosen for broker in one.brokers):
        _try(f"the server {broker}", say, partial(_install_server, broker, say))
    for tool in dict.fromkeys(one.environment for one in chosen):
        if tool is not None:
            _try(tool, say, partial(_make_environment, tool, say))


def requirements_of(tool: str) -> Path:
    return REQUIREMENTS / f"{tool}.txt"


def _try(what: str, say: Say, install_it: Callable[[], None]) -> None:
    try:
        install_it()
    except (OSError, subprocess.CalledProcessError) as error:
        say(f"{what} could not be installed: {error}")


def _install_server(broker: Broker, say: Say) -> None:
    if broker not in PACKAGES:
        return
    package, installed = PACKAGES[broker]
    if any(Path("/").glob(installed)):
        return
    apt = shutil.which("apt-get")
    if os.getuid() != 0 or apt is None:
        raise OSError(f"the package {package} is missing, and only root can install it")
    say(f"installing {package}")
    quietly = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    with _services_stay_down():
        for words in (["update"], ["install", "-y", "--no-install-recommends", package]):
            subprocess.run([apt, "-qq", *words], env=quietly, check=True, stdout=subprocess.DEVNULL)


@contextmanager
def _services_stay_down() -> Generator[None]:
    """Each measurement starts its own servers; those of the packages would be in the way."""
    if POLICY.exists():
        yield
        return
    POLICY.write_text(NEVER)
    POLICY.chmod(0o755)
    try:
        yield
    finally:
        POLICY.unlink()


def _make_environment(tool: str, say: Say) -> None:
    """Made again when the requirements have changed since."""
    folder, required = ENVIRONMENTS / tool, requirements_of(tool)
    stamp = folder / "made-of.txt"
    if stamp.exists() and stamp.read_text() == required.read_text():
        return
    say(f"making the environment of {tool}")
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "-qq"]
    subprocess.run([*pip, "install", "-r", str(required)], check=True)
    shutil.copyfile(required, stamp)
