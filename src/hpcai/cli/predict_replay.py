"""The command ``hpcai predict replay``: profiled steps rebuilt from their timelines, and asked what if."""

import math
import statistics
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer

from hpcai.catalogue.points import POINT
from hpcai.cli.answers import say_json
from hpcai.cli.options import Command, StudyResults, TableOrJson, count, flag, option, require_above_zero, takes
from hpcai.config.study import WARM_STEPS
from hpcai.core.errors import ConfigError
from hpcai.core.messages import Message, at
from hpcai.core.text import NOT_KNOWN, NOT_MEASURED
from hpcai.core.text_table import say_table
from hpcai.metrics.profiles.link import TRANSFER, of_engine
from hpcai.predict.scales.exchange import DEFAULT_CYCLE_S
from hpcai.predict.scales.measured import read_table
from hpcai.predict.scales.replay import (
    AS_PROFILED,
    WHAT_IF,
    Change,
    StepParts,
    agreement_by_itself_s,
    replay_step,
    split_steps,
    typical_step,
)
from hpcai.profiles.profile import Profile
from hpcai.profiles.timeline.views import traffic_of

app = typer.Typer(rich_markup_mode=None, add_completion=False)
GOAL_RATIO = 0.05
EXAMPLE = """\b
examples:
  hpcai predict replay results                                           # all timelines, and the usual questions
  hpcai predict replay results --benchmark NAME --cycle-ms 10 --slow-rank 1.5"""
NO_TIMELINES = Message(
    "predict_replay.no_timelines",
    "no measured timeline{of} in profiles/timeline, expected at least one: profile a scale of two ranks or more",
)
SUMMARY = Message(
    "predict_replay.summary",
    "rebuilt steps of timelines: {steps}; median error {median:.1%}, largest {worst:.1%} (goal {goal:.0%})",
)
NO_ANSWER = Message(
    "predict_replay.no_answer",
    "no answer: transfers of such messages, or with another bandwidth of short ones, were not measured with as many "
    "ranks, or messages would be joined, and no timeline tells which of them would wait for others",
)


@dataclass(frozen=True, kw_only=True)
class Question:
    """What `hpcai predict replay` is asked."""

    results: StudyResults
    benchmark: Annotated[str | None, option("NAME", "one benchmark alone")] = None
    bandwidth: Annotated[float | None, option("RATIO", "bandwidth of the link over the profiled one, such as 2")] = None
    no_negotiation: Annotated[bool, flag("--no-negotiation", "ranks do not agree before they send")] = False
    fusion: Annotated[int | None, option("BYTES", "largest message (fusion_bytes), shorter than profiled", count)] = (
        None
    )
    cycle_ms: Annotated[float | None, option("MS", "Horovod's cycle (cycle_time_s)")] = None
    slow_rank: Annotated[float | None, option("RATIO", "one rank computes so many times as long, such as 2")] = None
    output: TableOrJson = "table"


@app.command(cls=Command, epilog=EXAMPLE)
@takes(Question)
def replay(question: Question) -> None:
    """Rebuild the typical step of each profiled run as a graph, and ask what it would take under other conditions.

    Beside it stand the median step of the profiled run, and of the timed runs, which the graph does not know.
    """
    changes = _changes(question)
    found = [_rebuild(question.results, profile, changes) for profile in _profiles(question)]
    if question.output == "json":
        print(say_json({"replays": found}))
        return
    heads = ["benchmark", "scale", "rebuilt ms", "profiled ms", "error", "timed ms"]
    cells = [
        [
            str(row["benchmark"]), f"{row['variant']} {row['scale']}",
            *(_ms(row[name]) for name in ("rebuilt_s", "profiled_s")), f"{row['relative_error_ratio']:+.1%}",
            _ms(row["timed_s"]),
        ]
        for row in found
    ]  # fmt: skip
    print(say_table(heads, cells, kinds="kknnnn"))
    asked = [
        [
            str(row["benchmark"]),
            f"{row['variant']} {row['scale']}",
            _say_change(question) or name,
            NOT_KNOWN if time_s is None else _ms(time_s),
            "" if time_s is None else f"{time_s / row['rebuilt_s']:.2f}",
        ]
        for row in found
        for name, time_s in row["what_if_s"].items()
    ]
    print(say_table(["benchmark", "scale", "what if", "step ms", "of the rebuilt"], asked, kinds="kkwnn"))
    if any(time_s is None for row in found for time_s in row["what_if_s"].values()):
        print(NO_ANSWER())
    errors = [abs(row["relative_error_ratio"]) for row in found]
    print(SUMMARY(steps=len(found), median=statistics.median(errors), worst=max(errors), goal=GOAL_RATIO))


def judge_replays(results: Path) -> list[float]:
    """Return the absolute relative error of each rebuilt step of a results folder.

    Raises
    ------
    ConfigError
        If it has no timeline.
    """
    question = Question(results=results)
    return [abs(_rebuild(results, profile, {})["relative_error_ratio"]) for profile in _profiles(question)]


def _changes(question: Question) -> dict[str, Change]:
    """Return what is asked by name; the usual questions without any option.

    Raises
    ------
    ConfigError
        If a number is not above 0.
    """
    given = {"bandwidth": question.bandwidth, "cycle_ms": question.cycle_ms, "slow_rank": question.slow_rank}
    require_above_zero(given)
    change = Change(
        bandwidth_ratio=1.0 if question.bandwidth is None else question.bandwidth,
        negotiated=not question.no_negotiation,
        fusion_bytes=math.nan if question.fusion is None else float(question.fusion),
        cycle_s=math.nan if question.cycle_ms is None else question.cycle_ms / 1e3,
        slow_ratio=1.0 if question.slow_rank is None else question.slow_rank,
    )
    asked = question.no_negotiation or any(value is not None for value in (*given.values(), question.fusion))
    return {"what if": change} if asked else dict(WHAT_IF)


def _say_change(question: Question) -> str:
    """Return what is asked in words; blank for the usual questions, which have names."""
    words = {
        "{} times the bandwidth": question.bandwidth,
        "no negotiation": question.no_negotiation or None,
        "messages of {} B": question.fusion,
        "cycle of {} ms": question.cycle_ms,
        "one rank {} times as slow": question.slow_rank,
    }
    return ", ".join(text.format(f"{value:g}") for text, value in words.items() if value is not None)


def _profiles(question: Question) -> Iterator[Profile]:
    """Yield the measured timelines.

    Raises
    ------
    ConfigError
        If there is none.
    """
    pattern = f"{question.benchmark or '*'}/*/*/*/capture.json"
    files = sorted((question.results / "profiles/timeline").glob(pattern))
    profiles = [one for one in map(Profile.at, files) if one.capture.status == "measured"]
    if not profiles:
        of = f" of {question.benchmark}" if question.benchmark else ""
        raise ConfigError(at(str(question.results), NO_TIMELINES(of=of)))
    yield from profiles


def _rebuild(results: Path, profile: Profile, changes: dict[str, Change]) -> dict[str, Any]:
    traffic = traffic_of(profile, profile.steps())
    cycle_s = profile.plan.point.cycle_time_s or DEFAULT_CYCLE_S
    links = _links(results, profile)
    agreement_s, transfers = math.nan, None
    if links is not None:
        agreement_s, transfers = agreement_by_itself_s(links), links[links["what"] == TRANSFER]
        transfers = transfers if len(transfers) else None
    steps = traffic.steps.iloc[WARM_STEPS:]
    step = typical_step(split_steps(traffic.spans, traffic.timeline.cycles, steps, cycle_s, agreement_s))
    rebuilt_s = replay_step(step, AS_PROFILED, transfers)
    identity = profile.identity
    return {
        **{name: identity[name] for name in ("benchmark", "variant", "scale")},
        "rebuilt_s": rebuilt_s,
        "profiled_s": step.step_s,
        "relative_error_ratio": rebuilt_s / step.step_s - 1,
        "timed_s": _timed_s(results, profile),
        "what_if_s": {name: _ask(step, change, transfers) for name, change in changes.items()},
        "parts": {
            "messages": [{**asdict(one), "size_bytes": one.size_bytes} for one in step.messages],
            "after_s": step.after_s,
        },
        "method": "modelled",
        "source": str(traffic.timeline.spans.source),
    }


def _ask(step: StepParts, change: Change, transfers: pd.DataFrame | None) -> float | None:
    """Return what a changed step takes [s]; None: not known."""
    time_s = replay_step(step, change, transfers)
    return None if math.isnan(time_s) else time_s


def _links(results: Path, profile: Profile) -> pd.DataFrame | None:
    """Return the measured calls and transfers of that many ranks, inside a node or between nodes; None: not measured.

    As profiled: a transfer between nodes is other work than one inside of a node.
    """
    file = results / "tables/links.parquet"
    if not file.is_file():
        return None
    point = profile.plan.point
    scope = "node" if point.nodes == 1 else "network"
    links = of_engine(read_table(file), point.engine)
    return links[(links["scope"] == scope) & (links["ranks"] == point.ranks)]


def _timed_s(results: Path, profile: Profile) -> float | None:
    """Return the median step of the timed runs of the same scale [s]; None: not measured."""
    file = results / "tables/scales.parquet"
    if not file.is_file():
        return None
    scales = read_table(file)
    same = (scales[POINT] == pd.Series(profile.identity)[POINT]).all(axis=1)
    found = scales[same]["step_time_median_s"].dropna()
    return float(found.iloc[0]) if len(found) else None


def _ms(time_s: float | None) -> str:
    return NOT_MEASURED if time_s is None else f"{1e3 * time_s:.2f}"
