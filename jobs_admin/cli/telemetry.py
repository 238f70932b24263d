"""Set OpenTelemetry's SDK up from OTEL_* variables, for commands that run for long.

OpenTelemetry's own configurator reads the variables. It needs the extra `otel`.
"""

from __future__ import annotations

import logging
import os
from importlib.metadata import entry_points
from typing import Final

from trellis_jobs.telemetry import has_provider

log = logging.getLogger(__name__)

_CONFIGURATORS: Final = "opentelemetry_configurator"
_INSTALL: Final = "pip install 'trellis-jobs[otel]'"
_EXPORTERS: Final = ("OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER")
# One of these says that somebody wants telemetry; without them nothing is set up.
_ASKS: Final = (*_EXPORTERS, "OTEL_LOGS_EXPORTER", "OTEL_CONFIG_FILE")
_ASKS_TOO: Final = "OTEL_EXPORTER_"
# By OpenTelemetry's specification an empty variable counts as one that is not set.
_NOTHING: Final = ("", "none")


def set_up_telemetry(service: str) -> None:
    """Spans and metrics go where the environment says; `service` is the default of their name.

    Nothing is done where the program has set up a provider before: the service's own module, or
    `opentelemetry-instrument`. What was not sent yet is sent when the process exits.
    """
    asked = _asked_by()
    if asked is None or has_provider():
        return
    found = entry_points(group=_CONFIGURATORS)
    wanted = os.environ.get("OTEL_PYTHON_CONFIGURATOR", "configurator")
    if wanted not in found.names:
        log.warning(
            "%s is set, but nothing is exported: OpenTelemetry's SDK is not installed. Install it "
            "with %s",
            asked,
            _INSTALL,
        )
        return
    _set_defaults(service)
    try:
        found[wanted].load()().configure()
    except Exception as error:
        # Whatever a configurator or an exporter raises: jobs run without telemetry too.
        log.error(
            "nothing is exported: OpenTelemetry's SDK could not be set up from the OTEL_* "
            "variables: %s. Correct them, or install the exporter that they name",
            error,
        )


def _asked_by() -> str | None:
    """The variable that asks for telemetry; None where none does, or OTEL_SDK_DISABLED is true."""
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    named = sorted(
        name
        for name, value in os.environ.items()
        if (name in _ASKS or name.startswith(_ASKS_TOO)) and value.strip().lower() not in _NOTHING
    )
    return named[0] if named else None


def _set_defaults(service: str) -> None:
    """What OpenTelemetry's specification says; its Python configurator exports nothing, by gRPC."""
    for exporter in _EXPORTERS:
        os.environ.setdefault(exporter, "otlp")
    os.environ.setdefault("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
    if "service.name=" not in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", ""):
        os.environ.setdefault("OTEL_SERVICE_NAME", service)
