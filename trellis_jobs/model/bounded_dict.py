"""A dictionary for caches: it keeps the entries that were written last."""

from __future__ import annotations

from collections import UserDict
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class BoundedDict(UserDict[K, V]):
    """Holds at most `limit` entries. Writing one more removes the entry written longest ago."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit

    def __setitem__(self, key: K, value: V) -> None:
        self.data.pop(key, None)
        self.data[key] = value
        if len(self.data) > self._limit:
            del self.data[next(iter(self.data))]
