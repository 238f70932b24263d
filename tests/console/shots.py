"""Pictures of every screen, light and dark: `python -m tests.console.shots FOLDER`."""

from __future__ import annotations

import asyncio
import re
import sys
import tempfile
from pathlib import Path
from typing import Final, Literal

from tests.console.browser import WHY_NOT, chromium, visit
from tests.console.installation import installation

SCHEMES: Final[tuple[Literal["light", "dark"], ...]] = ("light", "dark")


async def shoot(folder: Path) -> int:
    count = 0
    with tempfile.TemporaryDirectory() as data:
        async with installation(Path(data), environment="staging") as made, chromium() as browser:
            names = {path: _name(path) for path in made.paths()}
            for scheme in SCHEMES:
                for width in (1280, 320):
                    async with visit(browser, made.address, width=width, scheme=scheme) as tab:
                        for path, name in names.items():
                            await tab.open(path)
                            await tab.page.wait_for_load_state("load")
                            file = folder / f"{name}-{scheme}-{width}.png"
                            await tab.page.screenshot(path=file, full_page=True)
                            count += 1
    return count


def _name(path: str) -> str:
    """Ids differ from one time to the next: a picture is named after the rest of its path."""
    words = [each for each in re.split(r"\W+", path) if each and not re.fullmatch(r"\w{26}", each)]
    return "-".join(words) or "overview"


def main() -> None:
    if WHY_NOT:
        sys.exit(WHY_NOT)
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    count = asyncio.run(shoot(folder))
    print(f"{count} pictures in {folder}")


if __name__ == "__main__":
    main()
