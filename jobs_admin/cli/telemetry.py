"""Set up the OpenTelemetry SDK from OTEL_* variables, for long-running commands.

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
# Any of these enables telemetry; without them nothing is set up.
_ENABLING: Final = (*_EXPORTERS, "OTEL_LOGS_EXPORTER", "OTEL_CONFIG_FILE")
_ENABLING_PREFIX: Final = "OTEL_EXPORTER_"
# By the OpenTelemetry specification an empty variable counts as one that is not set.
_DISABLED: Final = ("", "none")


def set_up_telemetry(service: str) -> None:
    """Export spans and metrics as the environment says; `service` is the default service name.

    Does nothing if the program has already set up a provider, in the service's module or with
    `opentelemetry-instrument`. The SDK sends what is left when the process exits.
    """
    variable = _enabling_variable()
    if variable is None or has_provider():
        return
    found = entry_points(group=_CONFIGURATORS)
    configurator = os.environ.get("OTEL_PYTHON_CONFIGURATOR", "configurator")
    if configurator not in found.names:
        log.warning(
            "%s is set, but nothing is exported: the OpenTelemetry SDK is not installed. Install "
            "it with %s",
            variable,
            _INSTALL,
        )
        return
    _set_defaults(service)
    try:
        found[configurator].load()().configure()
    except Exception as error:
        # A configurator or exporter may raise anything, and jobs can run without telemetry.
        log.error(
            "nothing is exported: the OpenTelemetry SDK could not be set up from the OTEL_* "
            "variables: %s. Correct them, or install the exporter that they name",
            error,
        )


def _enabling_variable() -> str | None:
    """Returns None when no variable enables telemetry, or OTEL_SDK_DISABLED is true."""
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    named = sorted(
        name
        for name, value in os.environ.items()
        if (name in _ENABLING or name.startswith(_ENABLING_PREFIX))
        and value.strip().lower() not in _DISABLED
    )
    return named[0] if named else None


def _set_defaults(service: str) -> None:
    """The defaults of the specification: the Python SDK's differ (no exporter, gRPC)."""
    for exporter in _EXPORTERS:
        os.environ.setdefault(exporter, "otlp")
    os.environ.setdefault("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
    if "service.name=" not in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", ""):
        os.environ.setdefault("OTEL_SERVICE_NAME", service)
