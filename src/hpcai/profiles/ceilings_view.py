"""The ceilings view: one table from all measurement reports, with a status and reason per row."""

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from hpcai.config.machine import Machine
from hpcai.core.messages import Message
from hpcai.core.text import say_rate
from hpcai.machine.ceilings.agreement import KEYS, say_disagreement
from hpcai.machine.ceilings.sampling import CeilingReport, NotMeasured, Summary, best_of, summarise
from hpcai.metrics.cells import join_words
from hpcai.metrics.quietness import DISTURBED
from hpcai.metrics.roofline.ceilings import judge_ceilings
from hpcai.metrics.roofline.columns import NOT_MEASURED, REFUSED
from hpcai.metrics.roofline.samples_above import declared_peaks
from hpcai.profiles.views import VIEWS

COLUMNS = VIEWS["ceilings"]
MEASURED = "measured"
"""Status of a ceiling without objections; the others: disturbed, refused, not measured."""
ON_CORES = ("gemm", "convolution", "memory")
"""Kinds whose threads are cores: more cores reach at least the rate of fewer, because some may idle."""
NOT_QUIET = "disturbed: others, or a hypervisor, took more of the cores than the study's limit"
SLOWER = Message("ceilings_view.slower", "{threads} threads reached {rate} at best")


def ceiling_rows(report: CeilingReport, source: str) -> pd.DataFrame:
    """Return the rows of the ceilings view: the best of each kind, precision, back-end, place and threads.

    ``value`` is the fastest repetition of the fastest method and ``median`` that method's median, both in ``unit``;
    ``ways`` counts the candidate methods. More cores are never slower than fewer: if fewer threads were faster, the row
    has their rate, and ``threads_used`` their number. A row whose best two repetitions disagree is disturbed. A setting
    without any sample gives a row without a value, with the reason.
    """
    measured = best_of(summarise(report.samples), KEYS)
    uncovered = [one for one in report.not_measured if not any(_is_of(best, one) for best in measured)]
    rows = [*(_measured_row(best, measured) for best in measured), *_missing_rows(uncovered)]
    return pd.DataFrame(rows, columns=list(COLUMNS)).assign(source=source)


def judge_rows(ceilings: pd.DataFrame, machine: Machine) -> pd.DataFrame:
    """Return the ceilings view with the status of each row, and the reason unless it is plainly measured.

    Parameters
    ----------
    ceilings
        Rows of all reports: with their reports' ``quiet``, and ``status`` and ``reason`` as far as known.
    machine
        Declared peaks; rates above them are refused, as in :func:`hpcai.metrics.roofline.ceilings.judge_ceilings`.
    """
    judged = judge_ceilings(ceilings, declared_peaks(machine))
    rows = [_judge(row) for row in judged.to_dict("records")]
    return judged.assign(**{name: [row[name] for row in rows] for name in ("status", "reason")})


def _judge(row: Mapping[Hashable, Any]) -> dict[str, str]:
    if pd.isna(row["value"]):
        return {"status": NOT_MEASURED, "reason": join_words(row["reason"], separator="; ")}
    if row["refused"]:
        return {"status": REFUSED, "reason": join_words(row["refused"], row["reason"], separator="; ")}
    others = NOT_QUIET if row["quiet"] == DISTURBED else ""
    disturbed = others or row["status"] == DISTURBED
    return {"status": DISTURBED if disturbed else MEASURED, "reason": join_words(row["reason"], others, separator="; ")}


def _measured_row(own: Summary, measured: Iterable[Summary]) -> dict[str, object]:
    """Return the row for a number of threads, with the rate of the fastest thread count up to it."""
    fewer = [one for one in measured if own.kind in ON_CORES and one.threads < own.threads and _is_alike(one, own)]
    best = max([own, *fewer], key=lambda one: one.best)
    disagreement = say_disagreement(best)
    slower = "" if best is own else SLOWER(threads=own.threads, rate=say_rate(own.best, own.unit))
    return {
        **best.model_dump(include=set(COLUMNS)),
        "threads": own.threads,
        "threads_used": best.threads,
        "value": best.best,
        "spread_ratio": math.nan if best.spread_ratio is None else best.spread_ratio,
        "agreement_ratio": math.nan if best.agreement_ratio is None else best.agreement_ratio,
        "status": DISTURBED if disagreement else MEASURED,
        "reason": join_words(slower and f"rate of {best.threads} threads: {slower}", disagreement, separator="; "),
    }


def _is_alike(one: Summary, other: Summary) -> bool:
    return all(getattr(one, name) == getattr(other, name) for name in KEYS if name != "threads")


def _missing_rows(missing: Iterable[NotMeasured]) -> list[dict[str, object]]:
    """Return one row for all settings that share a reason for not being measured."""
    groups: dict[tuple[object, ...], list[NotMeasured]] = {}
    for one in missing:
        groups.setdefault(tuple(getattr(one, name) for name in (*KEYS, "reason")), []).append(one)
    return [_missing_row(group) for group in groups.values()]


def _missing_row(group: Sequence[NotMeasured]) -> dict[str, object]:
    first, settings = group[0], len({one.setting for one in group})
    return {
        **first.model_dump(include=set(COLUMNS)),
        "setting": first.setting if settings == 1 else f"{settings} settings",
        "threads": math.nan if first.threads is None else first.threads,
        "threads_used": math.nan,
        "value": math.nan,
        "median": math.nan,
        "unit": "FLOP/s" if first.kind in {"gemm", "convolution"} else "B/s",
        "n": 0,
        "spread_ratio": math.nan,
        "agreement_ratio": math.nan,
        "ways": 0,
        "status": NOT_MEASURED,
    }


def _is_of(best: Summary, missing: NotMeasured) -> bool:
    """Whether a ceiling covers an unmeasured method; blank fields of the method match any value."""
    said = {name: getattr(missing, name) for name in ("precision", "backend", "place", "threads")}
    return best.kind == missing.kind and all(getattr(best, name) == value for name, value in said.items() if value)
