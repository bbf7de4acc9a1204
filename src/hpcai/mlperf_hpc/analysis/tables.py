"""Convert rounds to tables: one row per log, and one row per submission and benchmark."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import pandas as pd

from hpcai.core.messages import Message
from hpcai.mlperf_hpc.analysis.columns import RESULT_COLUMNS, RUN_COLUMNS
from hpcai.mlperf_hpc.analysis.counted_runs import claims_success, keep_runs, reaches_target
from hpcai.mlperf_hpc.analysis.editions import name_editions
from hpcai.mlperf_hpc.analysis.labels import label_results
from hpcai.mlperf_hpc.analysis.repeats import find_repeats, say_repeat
from hpcai.mlperf_hpc.analysis.result_quantities import join_reasons, summarise_runs
from hpcai.mlperf_hpc.analysis.run_quantities import NAN, count_of, quantities_of
from hpcai.mlperf_hpc.analysis.targets import OWN_DATA, OWN_STALL, QUALITY, target_of
from hpcai.mlperf_hpc.analysis.weak_scales import WeakScales, counted_instances, read_scales
from hpcai.mlperf_hpc.compliance.checked_round import CheckedRound
from hpcai.mlperf_hpc.rounds.model import LoggedRun, Scaling, Submission, System
from hpcai.mlperf_hpc.rounds.texts import clip
from hpcai.mlperf_hpc.rounds.times import utc_text

TOO_MANY_NODES = Message("tables.too_many_nodes", "the log tells {logged_nodes} nodes, which cannot be one instance's")
OTHER_NODES = Message("tables.other_nodes", "the log tells {logged_nodes} nodes, the system file {nodes}, which counts")

NO_UNITS = Message("tables.no_units", "compute units are not known: the system file tells no number of {lacking}")

Row = dict[str, Any]


class _Size(NamedTuple):
    """Nodes and compute units of a run, with remarks; None for unknown values.

    The units are accelerators, or processors without them; None if there are accelerators of an unknown number.
    """

    nodes: int | None
    processors: int | None
    accelerators: int | None
    units: int | None
    reasons: tuple[str, ...] = ()


def run_table(rounds: Iterable[CheckedRound]) -> pd.DataFrame:
    """Return one row per log, for published rounds and own studies alike.

    Runs of strong scaling are kept or dropped by the olympic mean (mlperf_logs.md 5); weak-scaling instances are never
    kept. The scale of a strong run is its system's, that of a weak instance is S
    (:func:`hpcai.mlperf_hpc.analysis.weak_scales.read_scales`).

    Returns
    -------
    DataFrame
        ``RUN_COLUMNS``; missing values are NaN, None or blank, with a reason.
    """
    rows = [row for checked in rounds for submission in checked.round.submissions for row in _rows(checked, submission)]
    return pd.DataFrame(rows, columns=RUN_COLUMNS)


def result_table(runs: pd.DataFrame) -> pd.DataFrame:
    """Return one row per submission and benchmark of strong scaling.

    Parameters
    ----------
    runs
        :func:`run_table` of any rounds.

    Returns
    -------
    DataFrame
        ``RESULT_COLUMNS``; means over the runs kept by status, unless the name contains target.
        ``time_to_train_s`` is the official score: over runs that comply and reach the target.
    """
    strong = runs[runs["scaling"] == "strong"]
    groups = [group for _, group in strong.groupby(["origin", "submission", "benchmark"], sort=False, dropna=False)]
    table = pd.DataFrame([summarise_runs(group) for group in groups], columns=RESULT_COLUMNS)
    repeats = find_repeats(groups)
    reasons = [join_reasons(pair) for pair in zip(map(say_repeat, repeats), table["reason"], strict=True)]
    return table.assign(label=label_results(table), edition=name_editions(table), same_runs_as=repeats, reason=reasons)


def _rows(checked: CheckedRound, submission: Submission) -> list[Row]:
    if submission.scaling == "weak":
        return _instance_rows(checked, submission)
    rows = [_run_row(checked, submission, run, "strong", _whole_size(submission, run)) for run in submission.runs]
    for rule in ("status", "target"):
        kept = keep_runs([_time_s(run) for run in submission.runs], [row[f"good_by_{rule}"] for row in rows])
        for place in kept:
            rows[place][f"kept_by_{rule}"] = True
    return rows


def _instance_rows(checked: CheckedRound, submission: Submission) -> list[Row]:
    scales = read_scales(submission, counted_instances(submission, checked.complying))
    parts: tuple[tuple[Scaling, tuple[LoggedRun, ...]], ...] = (
        ("weak", submission.runs),
        ("weak_pruned", submission.pruned),
    )
    return [
        _run_row(checked, submission, run, scaling, _instance_size(submission, run, scales))
        for scaling, runs in parts
        for run in runs
    ]


def _time_s(run: LoggedRun) -> float | None:
    return run.run.duration_s if run.run else None


def _run_row(checked: CheckedRound, submission: Submission, run: LoggedRun, scaling: Scaling, size: _Size) -> Row:
    quantities = asdict(quantities_of(run))
    reasons = quantities.pop("reasons")
    good = claims_success(run)
    reached = reaches_target(run, submission.benchmark)
    verdict = checked.verdicts.get(run.source)
    return {
        **submission.identity,
        "scaling": scaling,
        "logged_division": run.division,
        "number": run.number,
        "claim": run.claim,
        "complies": verdict.complies if verdict else None,
        "rule_set": checked.choice.rule_set,
        "rule_set_reason": checked.choice.reason,
        "reaches_target": reached,
        "good_by_status": good,
        "good_by_target": good and reached,
        "kept_by_status": False,
        "kept_by_target": False,
        **_quality(submission.benchmark, run),
        **_scale(size),
        "logged_nodes": _known(count_of(run, "number_of_nodes")),
        "global_batch_samples": _known(count_of(run, "global_batch_size")),
        "train_samples": _known(count_of(run, "train_samples")),
        "evaluation_samples": _known(count_of(run, "eval_samples")),
        "seed": _seed(run.seeds),
        **quantities,
        "repairs": len(run.repairs),
        "started_utc": _utc(run),
        "source": run.source,
        "scaling_factor": NAN if submission.scaling_factor is None else submission.scaling_factor,
        "reason": join_reasons([*_own_reasons(run), *size.reasons, *reasons]),
    }


def _own_reasons(run: LoggedRun) -> list[str]:
    """Return remarks on an own run: generated data make it invalid under the rules, and pauses are mentioned."""
    generated = run.settings.get(OWN_DATA) == "generated"
    of_data = ["generated data: not a valid MLPerf HPC result"] if generated else []
    return [*of_data, str(run.settings.get(OWN_STALL, ""))]


def _quality(benchmark: str, run: LoggedRun) -> Row:
    values = [score.value for score in run.scores]
    quality = QUALITY.get(benchmark)
    return {
        "quality_metric": run.quality_key or (quality.key if quality else ""),
        "quality_target": target_of(run, benchmark),
        "best_quality": quality.best_of(values) if quality else NAN,
        "last_quality": values[-1] if values else NAN,
    }


def _whole_size(submission: Submission, run: LoggedRun) -> _Size:
    """Return the size of the system, which overrides the log."""
    system = submission.system
    if system is None:
        return _Size(None, None, None, None, (_NO_SYSTEM,))
    logged = count_of(run, "number_of_nodes")
    differs = logged is not None and system.nodes is not None and logged != system.nodes
    said = [OTHER_NODES(logged_nodes=logged, nodes=system.nodes)] if differs else []
    if system.units is None:
        said.append(NO_UNITS(lacking=_lacking(system)))
    return _Size(system.nodes, system.processors, system.accelerators, system.units, tuple(said))


def _lacking(system: System) -> str:
    """Return what a system file without compute units does not tell."""
    if system.nodes is None:
        return "nodes"
    return "processors per node" if system.accelerators == 0 or not system.accelerator else "accelerators per node"


def _instance_size(submission: Submission, run: LoggedRun, scales: WeakScales) -> _Size:
    """Return the size of one instance of weak scaling."""
    nodes, accelerators = scales.of_run(run)
    system, logged = submission.system, count_of(run, "number_of_nodes")
    per_host = system.processors_per_node if system else None
    processors = None if nodes is None or per_host is None else nodes * per_host
    accelerated = system is not None and bool(system.accelerator or system.accelerators_per_node)
    units = accelerators or (None if accelerated and accelerators is None else processors)
    size = _Size(nodes, processors, accelerators, units)
    if system is None:
        return size._replace(reasons=(_NO_SYSTEM,))
    if logged is None:
        return size._replace(reasons=("the log does not tell the instance's number_of_nodes",))
    told = TOO_MANY_NODES(logged_nodes=logged)
    said = () if nodes == logged else (f"{told}{f': S is {scales.source}' if scales.source else ''}",)
    return size._replace(reasons=said)


_NO_SYSTEM = "no system file: nodes and compute units are not known"


def _scale(size: _Size) -> Row:
    """Return nodes and compute units of the system, or of one instance of it."""
    return {
        "nodes": _known(size.nodes),
        "processors": _known(size.processors),
        "accelerators": _known(size.accelerators),
        "units": _known(size.units),
        "unit": "accelerator" if size.accelerators else "processor" if size.units else "",
    }


def _known(value: int | None) -> float:
    """Return a count as a whole number for printing; NaN if it is missing."""
    return NAN if value is None else value


def _seed(seeds: Sequence[Any]) -> str:
    different = list(dict.fromkeys(map(str, seeds)))
    return clip(different[0]) if len(different) == 1 else f"{len(different)} seeds" if different else ""


def _utc(run: LoggedRun) -> str:
    return utc_text(run.run.start_ms) if run.run else ""
