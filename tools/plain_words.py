"""Find words that make readers stop, and name the better word: `python -m tools.plain_words`.

The list is short on purpose: words that this project once used instead of the field's words.
docs/explain/glossary.md explains the nouns that stay.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
SUFFIXES: Final = frozenset({".py", ".md", ".sql"})
# Folders and files whose prose is checked.
CHECKED: Final = (
    "SECURITY.md",
    "docs/explain/design.md",
    "docs/explain/glossary.md",
    "docs/explain/guarantees.md",
    "docs/explain/life-of-a-job.md",
    "docs/explain/nats-behaviours.md",
    "docs/explain/the-guard.md",
    "docs/guides/contracts.md",
    "docs/guides/deploying-workers.md",
    "docs/guides/developing.md",
    "docs/guides/errors-and-retries.md",
    "docs/guides/keyed-limits.md",
    "docs/guides/running-the-admin.md",
    "docs/guides/writing-jobs.md",
    "docs/operate/production-checklist.md",
    "docs/operate/provisioning.md",
    "docs/operate/retention.md",
    "docs/operate/runbooks.md",
    "docs/operate/upgrades.md",
    "docs/performance.md",
    "docs/reliability.md",
    "docs/quickstart.md",
    "jobs_admin",
    "pytest_trellis_jobs",
    "trellis_jobs",
)

BETTER: Final = {
    r"whoever|whomever": "name the process or person: the worker, the caller",
    r"nobody|somebody": "name the process or person: no worker, an operator",
    r"anew": "again",
    r"of (its|their|our|one's|his) own(?! [a-z])": "its own …, a separate …",
    r"patience": "timeout",
    r"_look": "poll_interval",
    r"fares?": "is doing; status",
    r"heard of": "seen",
    r"in vain": "without success",
    r"so many": "this many; at most N",
    r"desk": "server, acquirer, sender: say what it does",
    r"seats?": "slots, capacity",
    r"burials?|bury": "mark dead",
    r"abreast": "at the same time",
    r"surroundings": "environment",
    r"hindrance|hinders": "reason; prevents",
}
_WORDS: Final = {
    re.compile(rf"(?<![A-Za-z])(?:{words})(?![A-Za-z])", re.IGNORECASE): better
    for words, better in BETTER.items()
}


def files() -> Iterator[Path]:
    for checked in map(ROOT.joinpath, CHECKED):
        found = [checked] if checked.is_file() else sorted(checked.rglob("*"))
        yield from (path for path in found if path.suffix in SUFFIXES)


def findings(text: str) -> Iterator[tuple[int, str, str]]:
    """The line, the word and the better word of each finding."""
    for number, line in enumerate(text.splitlines(), start=1):
        for words, better in _WORDS.items():
            if found := words.search(line):
                yield number, found.group(), better


def main() -> int:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {word!r}: better: {better}"
        for path in files()
        for number, word, better in findings(path.read_text(encoding="utf-8"))
    ]
    sys.stdout.write("".join(f"{each}\n" for each in found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
