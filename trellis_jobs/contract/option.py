"""An option of a queue: its kind, its default, its field in a manifest, and what changing it means.

The table of all options is in `queue_options.py`.
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pydantic import create_model
from pydantic.alias_generators import to_snake

from trellis_jobs.contract.change_rules import unknown
from trellis_jobs.contract.documents import Part
from trellis_jobs.contract.option_kinds import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from trellis_jobs.contract.change_rules import ChangeRule

E = TypeVar("E", bound=Part)

# The default of an option that must be given.
REQUIRED: Final = MISSING


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One argument of job(...), or of a group of options such as KeyConcurrency(...).

    `attribute` is where JobType has the value, if not under the name of the option. `field` is the
    field of the manifest, or None if the manifest does not have the option as a field; `change`
    classifies changes of that field. `members` are the options of a group. `named`: the field has
    entries by name, and each of them is classified.
    """

    name: str
    kind: Kind
    about: str
    default: Any = None
    attribute: str | None = None
    field: str | None = None
    change: ChangeRule = unknown
    members: tuple[Option, ...] = ()
    named: bool = False

    def value_of(self, queue: Any) -> Any:
        """The value that a JobType has, or for a member of a group a KeyPolicy."""
        return attrgetter(self.attribute or self.name)(queue)

    def from_entry(self, entry: Part) -> Any:
        """The value that an entry of a manifest has."""
        return self.kind.from_json(getattr(entry, to_snake(self.field or "")))


def with_fields(options: Iterable[Option]) -> Callable[[type[E]], type[E]]:
    """A class decorator that adds the manifest's fields of the options to a pydantic model."""
    added: dict[str, Any] = {
        to_snake(option.field): (option.kind.json_type, _default_json(option))
        for option in options
        if option.field is not None
    }

    def decorate(entry: type[E]) -> type[E]:
        return create_model(
            entry.__name__,
            __base__=entry,
            __doc__=entry.__doc__,
            __module__=entry.__module__,
            **added,
        )

    return decorate


def _default_json(option: Option) -> Any:
    return ... if option.default is REQUIRED else option.kind.to_json(option.default)


def group(make: Callable[..., Any], entry: type[Part], members: Iterable[Option]) -> Kind:
    """Options that code passes as one argument, and that a manifest has as one entry.

    JobType has their values in its key policy.
    """
    return Kind(
        json_type=entry | None,
        to_json=lambda policy: (
            None
            if policy is None
            else {member.field: member.kind.to_json(member.value_of(policy)) for member in members}
        ),
        from_json=lambda read: (
            None
            if read is None
            else make(**{member.name: member.from_entry(read) for member in members})
        ),
    )
