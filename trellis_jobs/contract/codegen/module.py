"""The whole module: its imports, its classes, and the Jobs class with every setting."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from trellis_jobs.contract.codegen.annotations import SOURCES, Inexpressible
from trellis_jobs.contract.codegen.classes import Classes
from trellis_jobs.contract.codegen.layout import (
    class_name,
    is_plain,
    lint_codes,
    literal,
    long_text,
    wrapped,
)
from trellis_jobs.contract.declaration import DEFAULT_ACK_WAIT, DEFAULT_DELAYS, JobType
from trellis_jobs.contract.key_policy import KeyConcurrency, KeyPolicy, QueueDepth, resolve
from trellis_jobs.contract.manifest import from_manifest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_MADE: Final = "Made by `trellis-jobs contract generate`: change the manifest, and not this file."
# Of the Jobs class, and the types that the declarations after it are written with.
_TAKEN: Final = frozenset({"contract", "runtime", "job", "object", "dt"}) | {
    kind.__name__ for kind in (list, dict, set, tuple, str, int, float, bool, bytes)
}
_SWITCHES: Final = {"progress": "progress", "logs": "logs", "dead_letters": "dlq"}


def facade(document: Mapping[str, Any]) -> str:
    """Python source; raises DeclarationError, which names the place that cannot be written."""
    contract, classes = from_manifest(document), Classes()
    name = f"{class_name(contract.service)}Jobs"
    body = [
        line
        for queue in contract.queues.values()
        for line in _attribute(queue, document["jobs"][queue.name], classes)
    ]
    head = f"class {name}(Jobs, service={literal(contract.service)}):\n"
    jobs = head + "".join(f"{line}\n" for line in body or ["    pass"])
    classes.needed |= {"Jobs"} | ({"job"} if body else set())
    imports = "".join(f"{line}\n" for line in _imports(classes.needed))
    codes = lint_codes(classes.fields)
    quiet = f"# ruff: noqa: {', '.join(sorted(codes))}\n" if codes else ""
    top = f'{quiet}"""Jobs of the service {contract.service}.\n\n{_MADE}\n"""\n\n'
    return "\n\n".join([top + imports, *classes.sources, jobs])


def _imports(needed: set[str]) -> Iterator[str]:
    yield "from __future__ import annotations\n"
    if any(name.startswith("dt.") for name in needed):
        yield "import datetime as dt"
    by_module: dict[str, list[str]] = {}
    for name in needed & SOURCES.keys():
        by_module.setdefault(SOURCES[name], []).append(name)
    blocks = (("enum", "typing", "uuid"), ("pydantic", "trellis_jobs"))
    for number, block in enumerate(blocks):
        found = [module for module in block if module in by_module]
        for module in found:
            names = sorted(by_module[module], key=lambda name: (not name[0].isupper(), name))
            yield f"from {module} import {', '.join(names)}"
        if found and any(module in by_module for later in blocks[number + 1 :] for module in later):
            yield ""


def _attribute(
    queue: JobType[Any, Any], entry: Mapping[str, Any], classes: Classes
) -> Iterator[str]:
    attribute, path = queue.name.replace("-", "_"), f"jobs.{queue.name}"
    if not is_plain(attribute) or attribute.startswith("_") or attribute in _TAKEN:
        attribute = f"queue_{attribute}"
    schema = entry["payload"].get("schema", True)
    kinds = [classes.type_of(f"{path}.payload", f"{queue.name} payload", schema)]
    schema = entry.get("result", {}).get("schema", True)
    result = classes.type_of(f"{path}.result", f"{queue.name} result", schema)
    options = list(_options(queue, attribute, classes.needed))
    if "None" in kinds:
        raise Inexpressible(f"{path}.payload", "nothing is no payload here: make it an object")
    kinds += [] if result == "None" else [result]
    yield wrapped(f"{attribute} = job({', '.join([*kinds, *options])})", 1)


def _options(queue: JobType[Any, Any], attribute: str, needed: set[str]) -> Iterator[str]:
    """Those that are not as they would be anyway."""
    if attribute.replace("_", "-") != queue.name:
        yield f"name={literal(queue.name)}"
    if queue.version > 1:
        yield f"version={queue.version}"
    if queue.upgrades:
        needed.add("upgraded_elsewhere")
        steps = ", ".join(f"{step}: upgraded_elsewhere" for step in sorted(queue.upgrades))
        yield f"upgrades={{{steps}}}"
    yield from _counts(queue)
    for option in ("timeout", "deadline"):
        value: timedelta | None = getattr(queue, option)
        if value is not None:
            yield f"{option}={_seconds(value)}"
    yield from (f"{word}=False" for field, word in _SWITCHES.items() if not getattr(queue, field))
    yield from _remarks(queue)
    if queue.key_policy is not None:
        needed |= {"KeyConcurrency"}
        yield from _key_policy(queue.key_policy, queue.ack_wait, needed)


def _remarks(queue: JobType[Any, Any]) -> Iterator[str]:
    if queue.shared:
        yield "shared=True"
    if isinstance(queue.docs, str):
        yield f"docs={long_text(queue.docs)}"
    elif queue.docs is not None:
        yield f"docs={literal(queue.docs)}"


def _counts(queue: JobType[Any, Any]) -> Iterator[str]:
    if queue.concurrency != 1:
        yield f"concurrency={queue.concurrency}"
    if queue.retry.max_tries != 5:  # noqa: PLR2004 - the default of max_deliver
        yield f"max_deliver={queue.retry.max_tries}"
    if queue.retry.delays != DEFAULT_DELAYS:
        yield f"backoff=[{', '.join(map(_seconds, queue.retry.delays))}]"
    if queue.ack_wait != DEFAULT_ACK_WAIT:
        yield f"ack_wait={_seconds(queue.ack_wait)}"
    if queue.delivery_limit is not None:
        yield f"delivery_limit={queue.delivery_limit}"


def _key_policy(key_policy: KeyPolicy, ack_wait: timedelta, needed: set[str]) -> Iterator[str]:
    segments = list(key_policy.template.segments)
    usual = resolve(KeyConcurrency(segments), QueueDepth(), ack_wait)
    said = [literal(segments)]
    said += [
        f"{option}={_written(getattr(key_policy, option))}"
        for option in ("max_active", "heartbeat_interval", "heartbeat_ttl", "stale_policy")
        if getattr(key_policy, option) != getattr(usual, option)
    ]
    yield f"key=KeyConcurrency({', '.join(said)})"
    depth = []
    if key_policy.max_queued:
        depth.append(f"max_queued_per_key={key_policy.max_queued}")
    if usual is not None and key_policy.when_full != usual.when_full:
        depth.append(f"when_full={literal(key_policy.when_full.value)}")
    if depth:
        needed.add("QueueDepth")
        yield f"queue=QueueDepth({', '.join(depth)})"


def _written(value: Any) -> str:
    if isinstance(value, timedelta):
        return _seconds(value)
    return literal(str(value)) if isinstance(value, str) else literal(value)


def _seconds(duration: timedelta) -> str:
    seconds = duration.total_seconds()
    return repr(int(seconds) if seconds.is_integer() else seconds)
