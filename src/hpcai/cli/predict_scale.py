"""The command ``hpcai predict scale``: steps of a study's benchmarks at other ranks, batches and messages."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import pandas as pd
import typer

from hpcai.cli.answers import plain_records, say_json
from hpcai.cli.options import Command, StudyResults, TableOrJson, count, option, require_above_zero, takes
from hpcai.core.errors import ConfigError
from hpcai.core.files import write_asked
from hpcai.core.messages import Message, at
from hpcai.core.text_table import say_table
from hpcai.predict.scales.exchange import cycle_of
from hpcai.predict.scales.held_out import (
    OTHERS,
    QUESTIONS,
    UNSEEN,
    Case,
    hold_out,
    interval_of,
    question_of,
    summarise_cases,
    tabulate_cases,
)
from hpcai.predict.scales.host_speed import HostSpeed, read_host_speed
from hpcai.predict.scales.measured import MeasuredScales, find_files, read_measured_scales, read_table
from hpcai.predict.scales.model import Asked, ScaleStep
from hpcai.predict.scales.starts import predict_from_all, say_scales, usual_scale
from hpcai.predict.scales.trained import predict_trained, read_trained
from hpcai.predict.steps.report import NO_BLOCKS

if TYPE_CHECKING:
    from hpcai.predict.what_if.measured import Point

app = typer.Typer(rich_markup_mode=None, add_completion=False)
EXAMPLE = """\b
examples:
  hpcai predict scale results                                            # errors on all scales, each held out
  hpcai predict scale results --benchmark NAME --ranks 2 --batch 32
  hpcai predict scale results --benchmark NAME --ranks 2 --groups 4 --output json
  hpcai predict scale results --benchmark NAME --ranks 2 --cases cases.csv
  hpcai predict scale results --benchmark NAME --ranks 2 --host-speed today/results/runs"""
NOT_MEASURED = Message(
    "predict_scale.not_measured", "benchmark {benchmark!r} has no measured scale, expected one of {known}"
)
NEEDS_BENCHMARK = Message("predict_scale.needs_benchmark", "{option}: found it without --benchmark, expected both")
GROUPS_OR_FUSION = Message(
    "predict_scale.groups_or_fusion",
    "--groups: found it with --fusion, expected one: both say how many messages travel",
)
HOROVOD_ALONE = Message(
    "predict_scale.horovod_alone",
    "{option}: it is Horovod's, and {benchmark} was trained with the engine {engine}, expected it blank",
)
ANSWER = Message(
    "predict_scale.answer",
    "{benchmark} at {scale}, global batch {global_batch}, accumulation {accumulation}, messages {messages}, from "
    "{start}: modelled",
)
REFUSED = Message("predict_scale.refused", "{cases} not predicted: {reason}")


@dataclass(frozen=True, kw_only=True)
class Question:
    """What `hpcai predict scale` is asked."""

    results: StudyResults
    benchmark: Annotated[str | None, option("NAME", "a benchmark of the study; without it, errors of all scales")] = (
        None
    )
    ranks: Annotated[int | None, option("N", "ranks; by default as measured", count)] = None
    batch: Annotated[int | None, option("N", "global batch; by default as measured", count)] = None
    accumulation: Annotated[int | None, option("N", "micro-batches of a step and rank", count)] = None
    groups: Annotated[int | None, option("N", "messages of gradients (gradient_groups)", count)] = None
    fusion: Annotated[int | None, option("BYTES", "largest message (fusion_bytes)", count)] = None
    cycle_ms: Annotated[float | None, option("MS", "Horovod's cycle (cycle_time_s)")] = None
    machine: Annotated[str | None, option("NAME", "machine whose timed blocks are used, where several have some")] = (
        None
    )
    cases: Annotated[
        Path | None, option("FILE", "CSV of further measured trainings, whose errors give the interval")
    ] = None
    host_speed: Annotated[
        list[Path] | None,
        option("RECORD...", "records or folders of its scales' later trainings: predict at the host's speed then"),
    ] = None
    output: TableOrJson = "table"
    figure: Annotated[Path | None, option("FILE", "also draw the held-out scales, as SVG")] = None


@app.command(cls=Command, epilog=EXAMPLE)
@takes(Question)
def scale(question: Question) -> None:
    """Predict a step at another scale: the timed step at its batch, contention, the slowest rank, and the exchange.

    Nothing is fitted. Each part was measured apart, and each answer stands beside the errors on held-out scales.
    """
    _check(question)
    measured = read_measured_scales(find_files(question.results, question.machine), question.results / "runs")
    cases = hold_out(measured)
    table = tabulate_cases(measured, cases)
    if not measured.steps and table["predicted_step_s"].isna().all():
        raise ConfigError(at(str(question.results), NO_BLOCKS()))
    if question.figure:
        _draw(table, question.figure)
    answer = _answer(measured, cases, question) if question.benchmark else None
    if question.output == "json":
        found: dict[str, Any] = {"held_out": plain_records(table), "errors": summarise_cases(table)}
        print(say_json({**found, **({"answer": _plain(answer)} if answer else {})}))
        return
    if answer:
        print(f"{_say_answer(answer)}\n")
    else:
        print("\n".join([*filter(None, [_say_cases(table)]), *_say_refused(table), ""]))
    print("\n".join(summarise_cases(table)))


def _check(question: Question) -> None:
    names = ("ranks", "batch", "accumulation", "groups", "fusion", "cycle_ms", "cases", "host_speed")
    given = next((name for name in names if getattr(question, name) is not None), None)
    if given and not question.benchmark:
        raise ConfigError(NEEDS_BENCHMARK(option=f"--{given.replace('_', '-')}"))
    if question.groups and question.fusion:
        raise ConfigError(GROUPS_OR_FUSION())
    require_above_zero({"cycle_ms": question.cycle_ms})


def _check_engine(base: "Point", question: Question) -> None:
    """Refuse what no study can ask of an engine (study keys `fusion_bytes` and `cycle_time_s`)."""
    for option_name, value in (("--fusion", question.fusion), ("--cycle-ms", question.cycle_ms)):
        if value is not None and base.engine != "horovod":
            raise ConfigError(HOROVOD_ALONE(option=option_name, benchmark=base.benchmark, engine=base.engine))


@dataclass(frozen=True)
class Answer:
    """A prediction with its interval at the host's speed, and the same scale measured in the study, if it was."""

    benchmark: str
    start: str
    question: str
    scale: str
    global_batch_samples: int
    accumulation: int
    step: ScaleStep
    low_s: float
    high_s: float
    interval_basis: str
    measured_s: float
    host: HostSpeed


def _answer(measured: MeasuredScales, cases: Sequence[Case], question: Question) -> Answer:
    """Return the answer from all measured scales that lead to it.

    Raises
    ------
    ConfigError
        If the benchmark has no measured scale, its engine lacks what is asked, or nothing can be predicted.
    """
    own = [point for point in measured.points if point.benchmark == question.benchmark]
    if not own:
        known = ", ".join(dict.fromkeys(point.benchmark for point in measured.points))
        raise ConfigError(at(str(question.results), NOT_MEASURED(benchmark=question.benchmark, known=known)))
    base = usual_scale(own)
    _check_engine(base, question)
    own = [point for point in own if point.engine == base.engine]
    asked = _asked(own, base, question)
    setting = asked.setting
    starts, step = predict_from_all(measured, own, asked)
    if step.reason:
        raise ConfigError(at(str(question.results), step.reason))
    host, erred = _read_host(measured, question), cases
    if question.cases:
        erred = predict_trained(measured, read_trained(question.cases), at_study_speed=bool(host.trainings))
    step, interval = step.times(host.ratio), interval_of(erred, OTHERS, more=host.variance)
    low_s, high_s = interval.around(step.step_s)
    measured_s = next((point.step_s for point in own if asked.is_of(point)), math.nan)
    return Answer(
        starts[0].benchmark, say_scales(starts), question_of(starts[0].setting, setting), setting.scale,
        setting.global_batch, setting.accumulation, step, low_s, high_s, interval.basis, measured_s, host,
    )  # fmt: skip


def _read_host(measured: MeasuredScales, question: Question) -> HostSpeed:
    if not question.host_speed:
        return HostSpeed()
    return read_host_speed(question.host_speed, measured.points, read_table(question.results / "tables/runs.parquet"))


def _asked(own: Sequence["Point"], base: "Point", question: Question) -> Asked:
    """Return the usual scale with what is asked changed."""
    most = max(math.ceil(point.setting.ranks / point.setting.nodes) for point in own)
    setting = base.setting
    if question.ranks:
        setting = replace(setting, ranks=question.ranks, nodes=math.ceil(question.ranks / most))
    changes = {
        "global_batch": question.batch,
        "accumulation": question.accumulation,
    }
    setting = replace(setting, **{name: value for name, value in changes.items() if value is not None})  # type: ignore[arg-type]
    # One of the two says how many messages travel; what the base had of the other would win over what is asked.
    if question.groups:
        setting = replace(setting, gradient_groups=question.groups, fusion_bytes=None)
    if question.fusion:
        setting = replace(setting, gradient_groups=1, fusion_bytes=float(question.fusion))
    return Asked(setting, cycle_of(base) if question.cycle_ms is None else question.cycle_ms / 1e3)


def _say_answer(answer: Answer) -> str:
    step = answer.step
    bounds = "" if math.isnan(answer.low_s) else f" ({1e3 * answer.low_s:.2f} to {1e3 * answer.high_s:.2f})"
    compute_s = step.compute_s * step.contention_ratio * step.slowest_ratio
    rows = [
        ["step", f"{1e3 * step.step_s:.2f}{bounds}", answer.interval_basis],
        ["computing, alone", f"{1e3 * step.compute_s:.2f}", step.basis[0]],
        ["contention, slowest rank", f"{1e3 * (compute_s - step.compute_s):.2f}", "; ".join(step.basis[1:-1])],
        ["exchange that shows", f"{1e3 * step.exposed_s:.2f}", step.basis[-1] if len(step.basis) > 2 else ""],
    ]
    if not math.isnan(answer.measured_s):
        off = step.step_s / answer.host.ratio / answer.measured_s - 1
        error = f"in the study, for whose speed the prediction is off by {off:+.1%}"
        rows.append(["measured", f"{1e3 * answer.measured_s:.2f}", error])
    title = ANSWER(
        benchmark=answer.benchmark, scale=answer.scale, global_batch=answer.global_batch_samples,
        accumulation=answer.accumulation, messages=step.messages, start=answer.start,
    )  # fmt: skip
    table = say_table(["part", "ms", "from"], rows, kinds="kkw")
    return "\n".join(filter(None, (title, answer.host.words, table)))


def _say_cases(table: pd.DataFrame) -> str:
    """Return the predicted cases, below what they were predicted from; blank without any."""
    known = table[table["predicted_step_s"].notna()]
    if known.empty:
        return ""
    rows: list[Sequence[str] | str] = []
    for question, own in known.groupby("question", sort=False):
        rows += ["", QUESTIONS[str(question)], *(_case_cells(row) for row in own.to_dict("records"))]
    heads = ["benchmark", "scale", "from", "predicted ms", "measured ms", "error", "inside"]
    return f"{say_table(heads, rows, kinds='kkwnnnk')}\n"


def _case_cells(row: Mapping[Any, Any]) -> list[str]:
    return [
        row["benchmark"], f"{row['variant']} {row['scale']}",
        "the others" if row["question"] == UNSEEN else row["basis"],
        _ms(row["predicted_step_s"]), _ms(row["measured_step_s"]), f"{row['relative_error_ratio']:+.1%}",
        "" if pd.isna(row["within_interval"]) else "yes" if row["within_interval"] else "no",
    ]  # fmt: skip


def _say_refused(table: pd.DataFrame) -> list[str]:
    refused = table[table["predicted_step_s"].isna()]
    return [REFUSED(cases=len(own), reason=reason) for reason, own in refused.groupby("reason", sort=False)]


def _ms(time_s: float) -> str:
    return "" if math.isnan(time_s) else f"{1e3 * time_s:.2f}"


def _plain(answer: Answer) -> dict[str, Any]:
    found = asdict(answer)
    parts = found.pop("step")
    host: dict[str, Any] = {"host": [], "host_ratio": None}
    if known := answer.host.trainings:
        host = {"host": [{**asdict(one), "ratio": one.ratio} for one in known], "host_ratio": answer.host.ratio}
    return {name: _no_nan(value) for name, value in {**found, **parts, **host, "method": "modelled"}.items()}


def _no_nan(value: object) -> object:
    return None if isinstance(value, float) and math.isnan(value) else value


def _draw(table: pd.DataFrame, file: Path) -> None:
    from hpcai.plots.predictions.scale_cases import plot_scale_cases
    from hpcai.plots.theme import to_svg

    write_asked(file, to_svg(plot_scale_cases(table)).decode())
