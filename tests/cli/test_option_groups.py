"""A dataclass as one parameter of a command stands for one option per field."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer
from typer.testing import CliRunner

from jobs_admin.cli.option_groups import grouped


@dataclass(frozen=True, slots=True, kw_only=True)
class Colours:
    front: Annotated[str, typer.Option(help="Of the front.")] = "red"
    back: Annotated[list[str] | None, typer.Option("--behind")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MoreColours(Colours):
    frame: Annotated[str, typer.Option()]


def _ran(*arguments: str, **env: str) -> tuple[int, str]:
    app = typer.Typer(context_settings={"auto_envvar_prefix": "PAINT"})

    @app.command()
    @grouped
    def paint(
        colours: MoreColours,
        name: Annotated[str, typer.Argument()],
        twice: Annotated[bool, typer.Option("--twice")] = False,
    ) -> None:
        """Paints."""
        print(name, colours, twice)

    ended = CliRunner().invoke(app, arguments, env=env)
    return ended.exit_code, ended.output


def test_the_command_gets_the_group_with_what_was_said() -> None:
    code, said = _ran("door", "--frame", "white", "--behind", "a", "--behind", "b", "--twice")
    made = MoreColours(frame="white", back=["a", "b"])
    assert (code, said) == (0, f"door {made} True\n")


def test_fields_without_a_default_must_be_said() -> None:
    code, said = _ran("door")
    assert code == 2
    assert "--frame" in said


def test_each_field_has_an_environment_twin() -> None:
    made = MoreColours(frame="white", front="blue")
    assert _ran("door", PAINT_FRAME="white", PAINT_FRONT="blue") == (0, f"door {made} False\n")


def test_help_tells_every_field() -> None:
    code, said = _ran("--help")
    assert code == 0
    for words in ("Paints.", "--front", "Of the front.", "--behind", "--frame", "--twice"):
        assert words in said
