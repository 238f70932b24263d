"""Shells complete commands, states and contexts."""

from __future__ import annotations

import subprocess
from pathlib import Path

import orjson

from tests.cli.command import COMMAND, environment
from tests.cli.shell import shell


def _completed(words: str, config: Path | None = None) -> list[str]:
    """As bash asks for it, once the words are typed."""
    asks = {
        "_TRELLIS_JOBS_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
    }
    where = {} if config is None else {"XDG_CONFIG_HOME": str(config)}
    return shell(env={**asks, **where}).out.split()


def test_a_script_for_the_shell_is_printed() -> None:
    """The command looks for a shell among its parents, and pytest need not have one."""
    in_bash = ("bash", "-c", f"{COMMAND} --show-completion; exit $?")
    ended = subprocess.run(
        in_bash, env=environment(), capture_output=True, text=True, timeout=50, check=True
    )
    assert "complete -o default -F _trellis_jobs_completion trellis-jobs" in ended.stdout


def test_nouns_verbs_and_options_complete() -> None:
    assert "dlq" in _completed("trellis-jobs d")
    assert _completed("trellis-jobs dlq re") == ["replay"]
    assert _completed("trellis-jobs dlq replay --ev") == ["--everything"]


def test_states_complete() -> None:
    assert _completed("trellis-jobs jobs cancel --state p") == ["pending"]
    assert set(_completed("trellis-jobs jobs list --state d")) == {"dead", "dismissed"}


def test_contexts_of_natscli_complete(tmp_path: Path) -> None:
    folder = tmp_path / "nats" / "context"
    folder.mkdir(parents=True)
    for name in ("prod-eu", "prod-us", "lab"):
        (folder / f"{name}.json").write_bytes(orjson.dumps({"url": "nats://127.0.0.1:1"}))
    assert _completed("trellis-jobs services --context prod", tmp_path) == ["prod-eu", "prod-us"]
