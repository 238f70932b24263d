"""Values that a job filter may have, from the counts and the indexes of the projection."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Final

from jobs_admin.api.views.suggestions import SuggestionView
from jobs_admin.projection.rows import GROUPED
from jobs_admin.reads.error_search import pattern_of_example
from jobs_admin.reads.job_filter import id_range, queue_conditions

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jobs_admin.api.job_filter import JobFilter
    from jobs_admin.reads.readers import Readers

# Error words are those of the largest groups in each state.
_MAX_GROUPS: Final = 200
_ERROR_WORD: Final = re.compile(r"[^\W\d_]{3,}")
# Each value of an indexed column once, by a search for the next larger one.
_DISTINCT: Final = (
    "WITH RECURSIVE found (value) AS ("
    "SELECT (SELECT {column} FROM jobs_projection INDEXED BY {index} WHERE {column} IS NOT NULL "
    "AND {column} >= ?1 ORDER BY {column} LIMIT 1) UNION ALL "
    "SELECT (SELECT {column} FROM jobs_projection INDEXED BY {index} WHERE {column} IS NOT NULL "
    "AND {column} > found.value ORDER BY {column} LIMIT 1) FROM found WHERE found.value < ?2) "
    "SELECT value FROM found WHERE value < ?2 LIMIT ?3"
)
_INDEXES: Final = {"key": "jobs_by_key", "app_version": "jobs_by_app_version"}
_ERRORS: Final = (
    "SELECT g.jobs, (SELECT error FROM jobs_projection AS j INDEXED BY jobs_by_cause "
    "WHERE j.cause <> 0 AND j.cause = g.cause AND j.state = g.state LIMIT 1) "
    "FROM group_counts AS g WHERE g.state = ? ORDER BY g.jobs DESC LIMIT ?"
)


async def counted_names(
    readers: Readers, columns: str, of: JobFilter, prefix: str, limit: int
) -> list[SuggestionView]:
    """Names by which jobs are counted: `columns` is an expression of `job_counts`."""
    conditions = queue_conditions(of)
    query = f"SELECT {columns}, sum(jobs) FROM job_counts{conditions.where} GROUP BY 1"  # noqa: S608
    rows = await readers.rows(query, conditions.values)
    return _most_jobs_first(
        {name: jobs for name, jobs in rows if _begins(name, prefix)}.items(), limit
    )


async def distinct_values(
    readers: Readers, column: str, prefix: str, limit: int
) -> list[SuggestionView]:
    """Values of an indexed column in alphabetical order. The cost does not depend on the jobs."""
    query = _DISTINCT.format(column=column, index=_INDEXES[column])
    rows = await readers.rows(query, (*id_range(prefix), limit))
    return [SuggestionView(value=value) for (value,) in rows]


async def error_words(readers: Readers, prefix: str, limit: int) -> list[SuggestionView]:
    """Words of the patterns of errors. Ids, numbers and quoted values are not in patterns."""
    found: Counter[str] = Counter()
    for state in GROUPED:
        for jobs, error in await readers.rows(_ERRORS, (state.value, _MAX_GROUPS)):
            pattern = "" if error is None else pattern_of_example(error)
            for word in set(_ERROR_WORD.findall(pattern)):
                if word.startswith(prefix.casefold()):
                    found[word] += jobs
    return _most_jobs_first(found.items(), limit)


def _begins(name: str, prefix: str) -> bool:
    """`ch` is the beginning of `charge` and of `shop/charge`."""
    return name.startswith(prefix) or name.rpartition("/")[2].startswith(prefix)


def _most_jobs_first(found: Iterable[tuple[str, int]], limit: int) -> list[SuggestionView]:
    ordered = sorted(found, key=lambda each: (-each[1], each[0]))
    return [SuggestionView(value=value, jobs=jobs) for value, jobs in ordered[:limit]]
