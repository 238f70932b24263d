"""Find words that make readers stop, and name the better word: `python -m tools.plain_words`.

The list is short on purpose: words that this project once used instead of the field's words.
docs/explain/glossary.md explains the nouns that stay.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
SUFFIXES: Final = frozenset({".conf", ".md", ".py", ".service", ".sql"})
# Folders and files whose prose is checked.
CHECKED: Final = (
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Dockerfile",
    "Makefile",
    "README.md",
    "SECURITY.md",
    "benchmarks",
    "contracts/vectors/README.md",
    "deploy",
    "docker-compose.yml",
    "docs",
    "examples",
    "jobs_admin",
    "mkdocs.yml",
    "pytest_trellis_jobs",
    "tests",
    "tools/reference",
    "trellis_jobs",
)
# The tests of this check have samples of what it finds.
SAMPLES: Final = ROOT / "tests/docs/test_plain_words.py"

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
# Words of pages only: in code some of them are names, or rare.
BETTER_ON_PAGES: Final = {
    r"everybody|anybody": "name the process or person: every worker, any client",
    r"who provisions": "the provisioner",
    r"(is|are|was|were|be) told": "gets, reads, is described in",
    r"go(es)? on": "continues",
    r"work(s|ed|ing)? off": "processes, runs",
    r"weigh(s|ed)?": "takes, is as large as",
    r"vouch(es)?": "certifies",
    r"for ever": "forever, without limit",
    r"of (its|their|our|one's|his|your) own": "its own …, a separate …",
    r"heeds?": "reads, respects",
    r"at hand": "installed, available",
}


def _compiled(words: Mapping[str, str]) -> dict[re.Pattern[str], str]:
    return {
        re.compile(rf"(?<![A-Za-z])(?:{each})(?![A-Za-z])", re.IGNORECASE): better
        for each, better in words.items()
    }


_WORDS: Final = _compiled(BETTER)
_WORDS_OF_PAGES: Final = _compiled(BETTER | BETTER_ON_PAGES)
_INLINE_CODE: Final = re.compile(r"`[^`]*`")


def files() -> Iterator[Path]:
    for checked in map(ROOT.joinpath, CHECKED):
        if checked.is_file():
            yield checked
        else:
            found = (path for path in sorted(checked.rglob("*")) if path.suffix in SUFFIXES)
            yield from (path for path in found if path != SAMPLES)


def findings(text: str, *, is_page: bool = False) -> Iterator[tuple[int, str, str]]:
    """The line, the word and the better word of each finding. Code on a page may quote names."""
    for number, line in enumerate(text.splitlines(), start=1):
        prose = _INLINE_CODE.sub("", line) if is_page else line
        for words, better in (_WORDS_OF_PAGES if is_page else _WORDS).items():
            if found := words.search(prose):
                yield number, found.group(), better


def main() -> int:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {word!r}: better: {better}"
        for path in files()
        for number, word, better in findings(
            path.read_text(encoding="utf-8"), is_page=path.suffix == ".md"
        )
    ]
    sys.stdout.write("".join(f"{each}\n" for each in found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
