"""Makes HTML from the templates. All values are escaped: no template marks one as safe."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import jinja2
import orjson

from jobs_admin.console import links
from jobs_admin.console.charts.meter import meter
from jobs_admin.console.charts.percentile_bars import percentile_bars
from jobs_admin.console.charts.sparkline import sparkline
from jobs_admin.console.charts.stacked_bars import stacked_bars
from jobs_admin.console.words import (
    age,
    local_time,
    milliseconds,
    number,
    plural,
    share,
    short_id,
    size,
)
from jobs_admin.explain.event_words import progress_words
from trellis_jobs.model.durations import format_duration

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jobs_admin.console.screen import Screen

FOLDER: Final = Path(__file__).parent
_WHOLE_PAGE: Final = "page.html"
# Only the part that changes, for a page that is open and reads again.
_CHANGING_PART: Final = "part.html"


class Renderer:
    def __init__(self, screens: Sequence[Screen], *, is_offline: bool = False) -> None:
        """`is_offline`: there is nothing but the jobs of bundles, so other pages have no links."""
        self._environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader(FOLDER / "templates"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters.update(
            age=age,
            duration=format_duration,
            json=_json,
            json_line=_json_line,
            milliseconds=milliseconds,
            number=number,
            plural=plural,
            progress_words=progress_words,
            share=share,
            short_id=short_id,
            size=size,
        )
        self._environment.globals.update(
            screens=screens, is_offline=is_offline, local_time=local_time, links=links
        )
        self._environment.globals.update(
            meter=meter,
            percentile_bars=percentile_bars,
            sparkline=sparkline,
            stacked_bars=stacked_bars,
        )

    def render(self, template: str, values: Mapping[str, Any], *, part: bool = False) -> str:
        layout = _CHANGING_PART if part else _WHOLE_PAGE
        return self._environment.get_template(template).render(values, layout=layout)


def _json(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2, default=str).decode()


def _json_line(value: Any) -> str:
    return orjson.dumps(value, default=str).decode()
