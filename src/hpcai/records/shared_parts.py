"""Share what records of one campaign have in common: it is checked once, and held once in memory.

Thousands of records have the same benchmark, machine and verdicts, which are most of their text.
"""

from functools import cache, lru_cache
from typing import Any

from pydantic import TypeAdapter
from pydantic_core import from_json, to_json

from hpcai.config.machine import Machine
from hpcai.config.study import Limits, Submission
from hpcai.config.workloads import Benchmark
from hpcai.rules.verdict import Verdict

_PARTS_OF_PLAN: dict[str, Any] = {
    "benchmark": Benchmark,
    "machine": Machine,
    "limits": Limits,
    "submission": Submission,
}
_KEPT = 4096
"""Different parts kept in memory; a campaign has a few of each kind, and some of each run's verdicts are its own."""


def with_shared_parts(content: bytes) -> dict[str, Any]:
    """Return the values of a record's JSON, in which parts equal to those of an earlier record are checked models.

    Raises
    ------
    ValueError, TypeError, LookupError
        If it is not JSON, or one of these parts is missing or not valid: then the record as a whole says why.
    """
    # Short texts, such as keys and names, are the same objects in all records.
    values: dict[str, Any] = from_json(content, cache_strings="all")
    plan = values["plan"]
    for name in _PARTS_OF_PLAN:
        plan[name] = _checked(name, _text(plan[name]))
    values["verdicts"] = _checked("verdicts", _text(values["verdicts"]))
    return values


def _text(part: object) -> bytes:
    """Return a part as text: it tells 1, 1.0 and true apart, which Python takes for equal."""
    return to_json(part, inf_nan_mode="constants")


@lru_cache(maxsize=_KEPT)
def _checked(name: str, text: bytes) -> Any:  # noqa: ANN401  one of the models above
    return _adapter(name).validate_json(text)


@cache
def _adapter(name: str) -> TypeAdapter[Any]:
    return TypeAdapter(_PARTS_OF_PLAN.get(name, tuple[Verdict, ...]))
