"""A machine in one table: what TOP500, Green500, IO500, STREAM and the training suites say of it, each by its rules.

Nothing is combined into an index: a row has the number of one benchmark, in its own unit, with the rule behind it.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from hpcai.catalogue.tables import columns_of
from hpcai.core.errors import ParseError
from hpcai.core.messages import Message
from hpcai.machine.hpl.report import HplReport, faults_of
from hpcai.metrics.cells import join_words, records_of, text_of
from hpcai.metrics.roofline.columns import REFUSED
from hpcai.metrics.scaling.trials import name_statistics
from hpcai.parsers.hpl import read_hpl
from hpcai.parsers.hpl_mxp import read_hpl_mxp
from hpcai.parsers.identify import looks_like
from hpcai.records.files import read_part

NO_SCORE = Message("overview.no_score", "no run of this benchmark earned it: {reason}")
NO_HPL = Message(
    "overview.no_hpl",
    "HPL was not run here: `snakemake predict` runs it (study key predict, hpl_tests), by hpcc or hpl.command",
)
NO_MXP = Message("overview.no_mxp", "no output of HPL-MxP is named in the machine file (hpl.outputs)")
NO_POWER_OF_HPL = Message(
    "overview.no_power_of_hpl", "power is not sampled while HPL runs; the training's own is in the rows of its suite"
)
NOT_IO500 = Message(
    "overview.not_io500", "one test of sequential files, not the phases of IO500 (ior, mdtest, find): no IO500 score"
)
FAILED_CHECK = Message("overview.failed_check", "the residual check says {verdict}")
RULES = {
    "mlperf_hpc": "MLPerf HPC: time to train",
    "hpc_ai500": "HPC AI500 V2.0, 5.4.1: FLOPS times (quality / target)^n",
    "TOP500": "HPL: (2/3 N^3 + 3/2 N^2) / time, residual passed",
    "HPL-MxP": "HPL-MxP: the same operations / time of factorisation and refinement, residual passed",
    "Green500": "Green500: FLOP/s of HPL over the power of all nodes while it runs",
    "STREAM": "as STREAM counts: bytes read and written by copy and add over the best time; all threads",
    "IO500": "cold reads, and writes with fsync, of large files: bytes over the best time",
}
UNITS = {"time_to_train_s": "s", "vflops_flop_per_s": "FLOP/s", "flop_per_j": "FLOP/J"}
SUITES = {"mlperf_hpc": "MLPerf HPC", "hpc_ai500": "HPC AI500"}
Rows = list[dict[str, Any]]


def machine_overview(
    tables: Mapping[str, pd.DataFrame], hpl_reports: Sequence[str | Path], outputs: Sequence[str | Path]
) -> pd.DataFrame:
    """Return the table ``machine_overview``.

    Parameters
    ----------
    tables
        ``scores``, ``ceilings`` and ``power``.
    hpl_reports
        Reports of HPL runs that the workflow made on this machine.
    outputs
        Outputs of HPL and HPL-MxP that a site names (machine file, ``hpl.outputs``).
    """
    own, mixed = _of_outputs(outputs)
    rows = [
        *_training(tables["scores"]),
        *_best_of([*_hpl_runs(hpl_reports), *own], "TOP500", "HPL", NO_HPL()),
        *_best_of(mixed, "HPL-MxP", "HPL-MxP", NO_MXP()),
        _row("Green500", "energy efficiency", "HPL", unit="FLOP/J", reason=NO_POWER_OF_HPL()),
        *_ceilings(tables["ceilings"]),
        *_energy(tables["power"]),
    ]
    return pd.DataFrame(rows, columns=list(columns_of("machine_overview")))


def _row(origin: str, quantity: str, what: str, **values: Any) -> dict[str, Any]:  # noqa: ANN401  cells of a table
    blank = {"value": math.nan, "unit": "", "n": math.nan, "setting": "", "method": "", "reason": "", "source": ""}
    return {"list": origin, "quantity": quantity, "what": what, "rule": RULES.get(origin, ""), **blank, **values}


def _training(scores: pd.DataFrame) -> Rows:
    """Return the best result of each benchmark by its suite's measure, and the best of its scores per watt."""
    rows = []
    for (suite, _), own in scores.groupby(["suite", "benchmark"], sort=True):
        is_time = suite == "mlperf_hpc"
        quantity, measure = ("time to train", "time_to_train_s") if is_time else ("VFLOPS", "vflops_flop_per_s")
        rows.append(_best_result(own, str(suite), quantity, measure))
        if own["flop_per_j"].notna().any():
            rows.append(_best_result(own, str(suite), "FLOPS per watt", "flop_per_j"))
    return rows


def _best_result(own: pd.DataFrame, suite: str, quantity: str, measure: str) -> dict[str, Any]:
    shared = {"rule": RULES.get(suite, ""), "unit": UNITS[measure]}
    benchmark = str(own["benchmark"].iloc[0])
    known = own.dropna(subset=[measure])
    if known.empty:
        reasons = "; ".join(dict.fromkeys(str(text) for text in own["reason"] if isinstance(text, str) and text))
        reason = NO_SCORE(reason=reasons or "none ended")
        return _row(SUITES.get(suite, suite), quantity, benchmark, **shared, reason=reason)
    best = known.sort_values(measure, ascending=measure == "time_to_train_s", kind="stable").iloc[0]
    shared["rule"] = join_words(shared["rule"], name_statistics([text_of(best["statistic"])]))
    method = str(best["power_method"]) if measure == "flop_per_j" else str(best["method"])
    return _row(
        SUITES.get(suite, suite),
        quantity,
        benchmark,
        **shared,
        value=float(best[measure]),
        n=best["n_scored"],
        setting=f"{best['variant']}, {best['scale']}; valid for: {best['valid_for']}",
        method=method,
        source=str(best["source"]),
    )


def _hpl_runs(reports: Iterable[str | Path]) -> Rows:
    """Return the runs of HPL that the workflow made: order, grid, rate, verdict, faults, reason and source of each."""
    rows = []
    for path in reports:
        report = read_part(HplReport, Path(path))
        for run, row in zip(report.runs, records_of(report.frame(str(path))), strict=True):
            rows.append({**row, "rate_flop_per_s": row["measured_rate_flop_per_s"], "faults": faults_of(run)})
    return rows


def _of_outputs(outputs: Iterable[str | Path]) -> tuple[Rows, Rows]:
    """Return the results of HPL and of HPL-MxP in outputs; what cannot be read is a row with its reason."""
    plain: Rows = []
    mixed: Rows = []
    for path in map(Path, outputs):
        is_mixed = path.is_file() and "HPL-MxP" in looks_like(path)
        rows = mixed if is_mixed else plain
        try:
            table = (read_hpl_mxp if is_mixed else read_hpl)(path).table
        except ParseError as error:
            rows.append({"rate_flop_per_s": math.nan, "verdict": "", "reason": str(error), "source": str(path)})
        else:
            rows += [{**row, "reason": "", "source": str(path)} for row in records_of(table)]
    return plain, mixed


def _best_of(runs: Rows, origin: str, what: str, nothing: str) -> Rows:
    """Return the fastest run that passed its check and was not disturbed; why there is none where there is none."""
    shared = {"unit": "FLOP/s", "method": "measured"}
    sound = [run for run in runs if not run.get("faults")]  # a site's own outputs do not say who had the cores
    passed = [run for run in sound if run["verdict"] == "passed" and run["rate_flop_per_s"] > 0]
    if not passed:
        said = dict.fromkeys(run["reason"] or FAILED_CHECK(verdict=run["verdict"]) for run in runs)
        sources = ", ".join(dict.fromkeys(str(run["source"]) for run in runs))
        reason = "; ".join(said) or nothing
        return [_row(origin, "rate", what, **{**shared, "method": ""}, reason=reason, source=sources)]
    best = max(passed, key=lambda run: float(run["rate_flop_per_s"]))
    setting = ", ".join(f"{letter} {best[name]}" for letter, name in _SHAPE.items())
    n = best.get("n", 1)  # an output of a site's own holds one run in each row
    value = {"value": float(best["rate_flop_per_s"]), "n": n, "setting": setting}
    return [_row(origin, "rate", what, **shared, **value, reason=best["reason"], source=str(best["source"]))]


_SHAPE = {"N": "order", "NB": "block", "P": "process_rows", "Q": "process_columns"}


def _ceilings(ceilings: pd.DataFrame) -> Rows:
    """Return memory bandwidth by operation, and reads and writes of storage by place, the fastest way of each.

    A ceiling that was refused, because it is above a declared peak, is not the fastest of anything.
    """
    rows = []
    for kind, keys, origin, quantity, reason in (
        ("memory", ["backend"], "STREAM", "memory bandwidth", ""),
        ("storage_read", ["place"], "IO500", "read bandwidth", NOT_IO500()),
        ("storage_write", ["place"], "IO500", "write bandwidth", NOT_IO500()),
    ):
        for (what,), own in ceilings[ceilings["kind"] == kind].groupby(keys, sort=True):
            value = own["value"].where(own["status"] != REFUSED)
            best = own.assign(value=value).sort_values("value", ascending=False, kind="stable").iloc[0]
            cell = {name: best[name] for name in ("value", "unit", "n", "source")}
            words = ", ".join(dict.fromkeys(str(best[name]) for name in ("backend", "setting") if best[name] != what))
            doubts = "; ".join(filter(None, (str(best["reason"]), reason)))
            method = "measured" if best["value"] > 0 else ""
            rows.append(_row(origin, quantity, str(what), **cell, setting=words, method=method, reason=doubts))
    return rows


def _energy(power: pd.DataFrame) -> Rows:
    """Return the mean power of training by each meter, of the run that drew most."""
    rows = []
    for instrument, own in power.dropna(subset=["mean_power_w"]).groupby("instrument", sort=True):
        most = own.sort_values("mean_power_w", ascending=False, kind="stable").iloc[0]
        cell = {
            "value": float(most["mean_power_w"]),
            "unit": "W",
            "method": "measured",
            "source": str(most["source"]),
            "n": 1,
        }
        setting = "/".join(str(most[name]) for name in ("benchmark", "variant", "scale"))
        rows.append(_row("energy", "power of training", str(instrument), **cell, setting=setting))
    return rows
