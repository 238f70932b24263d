"""docker-compose.yml as Docker Compose reads it, as far as we make use of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

import yaml

from tests.docs.blocks import ROOT

FILE: Final = ROOT / "docker-compose.yml"
OUR_IMAGE: Final = "trellis-jobs"
_DEFAULTED: Final = re.compile(r"\$\{\w+:-([^}]*)\}")


@dataclass(frozen=True)
class Container:
    """One entry of `services`."""

    name: str
    settings: dict[str, Any]

    @property
    def is_ours(self) -> bool:
        return bool(self.settings["image"] == OUR_IMAGE)

    @property
    def command(self) -> list[str]:
        """Of our image: the entry point is the command, unless another one is named."""
        first = self.settings.get("entrypoint", ["trellis-jobs"])
        return [*first, *self.settings.get("command", ())]

    @property
    def environment(self) -> dict[str, str]:
        return {name: _read(str(value)) for name, value in self.settings["environment"].items()}

    @property
    def files(self) -> dict[str, str]:
        """What is mounted of this repository: the path inside, and the one beside the file."""
        return {**self._of("configs"), **self._of("secrets"), **self._folders()}

    @property
    def volumes(self) -> dict[str, str]:
        """The path inside, and the name of the volume."""
        return {inside: name for inside, name in self._mounts() if not name.startswith(".")}

    def _of(self, kind: str) -> dict[str, str]:
        given: list[Any] = self.settings.get(kind, [])
        wanted = (each if isinstance(each, dict) else {"source": each} for each in given)
        return {
            each.get("target", f"/run/secrets/{each['source']}"): read()[kind][each["source"]][
                "file"
            ]
            for each in wanted
        }

    def _folders(self) -> dict[str, str]:
        return {inside: name for inside, name in self._mounts() if name.startswith(".")}

    def _mounts(self) -> list[tuple[str, str]]:
        parts = [each.split(":") for each in self.settings.get("volumes", ())]
        return [(part[1], part[0]) for part in parts]


def read() -> dict[str, Any]:
    settings: dict[str, Any] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    return settings


def containers() -> dict[str, Container]:
    return {name: Container(name, each) for name, each in read()["services"].items()}


def _read(value: str) -> str:
    return _DEFAULTED.sub(r"\1", value.replace("$$", "$"))
