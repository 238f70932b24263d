"""A page as a reader follows it: its files are saved, its commands typed, its output compared."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.cli.command import Command, environment, running
from tests.docs.blocks import ROOT, Block, shape
from tests.support.facts import until

_ULID: Final = re.compile(r"\b01[0-9A-HJKMNP-TV-Z]{24}\b")
# What only looks may be asked again until it is so: jobs take a moment, and readers too.
_LOOKS: Final = re.compile(r"trellis-jobs (jobs (list|get|explain|events)|dlq (list|show))\b")


@dataclass
class Walk:
    folder: Path
    dev: Command | None = None
    ids: dict[str, str] = field(default_factory=dict)
    _open: ExitStack = field(default_factory=ExitStack)

    @classmethod
    @contextmanager
    def through(cls, folder: Path) -> Iterator[Walk]:
        walk = cls(folder)
        with walk._open:
            yield walk

    async def follow(self, block: Block) -> None:
        if block.file is not None:
            await self._save(block.file, block.text)
        elif block.language == "python":
            raise AssertionError(f"a program without a name: {block.text}")
        elif block.language == "console":
            for typed, printed in block.commands():
                await self._type(typed, printed)

    async def _save(self, name: str, text: str) -> None:
        """If dev runs, then until it runs the new code."""
        before = self._starts()
        draft = self.folder / "draft"
        draft.write_text(text, encoding="utf-8")
        draft.replace(self.folder / name)
        if self.dev is not None:
            await until(lambda: self._starts() > before, "dev starts the app again")

    async def _type(self, typed: str, printed: str) -> None:
        if typed.startswith("trellis-jobs dev"):
            await self._start_dev(typed, printed)
            return
        said = self._run(typed)
        if _LOOKS.search(typed):
            await until(lambda: shape(self._run(typed)) == shape(printed) or None, self._told(said))
            said = self._run(typed)
        assert shape(said) == shape(printed), f"{typed} printed\n{said}"
        self.ids |= dict(zip(_ULID.findall(printed), _ULID.findall(said), strict=True))

    async def _start_dev(self, typed: str, printed: str) -> None:
        """On any port, because the usual one may be taken here."""
        spoken = self.folder / "dev"
        spoken.mkdir()
        arguments = (*typed.split()[1:], "--port", "0")
        dev = self._open.enter_context(running(spoken, *arguments, cwd=self.folder))
        await dev.until_prints("runs jobs of")
        assert shape("\n".join(dev.printed.splitlines()[:2])) == shape(printed)
        self.dev = dev

    def _run(self, typed: str) -> str:
        command = _ULID.sub(lambda found: self.ids[found[0]], typed)
        ended = subprocess.run(
            ("/bin/bash", "-c", command),
            cwd=self.folder,
            env=environment(self._variables()),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=50,
            check=False,
        )
        return ended.stdout

    def _variables(self) -> dict[str, str]:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        python_path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        url = {"NATS_URL": self.dev.printed.split()[2]} if self.dev else {}
        return {"PATH": path, "PYTHONPATH": python_path, "USER": "ada", "LOGNAME": "ada", **url}

    def _starts(self) -> int:
        return self.dev.printed.count("runs jobs of") if self.dev else 0

    def _told(self, said: str) -> str:
        return f"it prints what the page shows; it printed:\n{said}"
