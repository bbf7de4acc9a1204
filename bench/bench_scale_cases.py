"""Intervals of `hpcai predict scale` on 200 trainings that no study had: how many hold the measured step.

The predictor knows a study's results (`make run`, `make predict`). The cases vary batch, ranks, accumulation, messages
(groups, or fusion with its cycle) and, where the study has it, precision; which of all possible ones are measured, a
seed decides before anything is. Each case is predicted as the command does it, from all measured scales, with the
interval that the study's own held-out errors give. Cases of one benchmark that share ranks, fusion and cycle train one
after another in ranks that stay, because starting takes longer than 40 steps. It takes 26 minutes.

A scale that the study has trains before, between and after the cases of its benchmark, in the same way. Its step over
the study's tells how much slower the host is at that time than when the study ran, which no predictor can know. The
verdict is on steps over this ratio, on the line between the nearest two; errors of the steps as measured are printed
too.

`--again TABLE` predicts the cases of an earlier `--table` and measures nothing. Intervals from errors of other cases
stand beside those of the study: of all other benchmarks, or of all other kinds of change.
"""

import argparse
import json
import math
import random
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from plans import WARM_STEPS, bench_plan, launch_ranks, prepared
from scipy.stats import binomtest

from hpcai.config.plan_file import write_plan
from hpcai.config.runs import RunPlan
from hpcai.core.disturbance import disturbance_of, look, say_disturbance, use_since
from hpcai.core.errors import HpcaiError
from hpcai.predict.scales.held_out import LEVEL_RATIO, OTHERS, hold_out, interval_of, question_of
from hpcai.predict.scales.host_speed import Again, HostSpeed
from hpcai.predict.scales.measured import MeasuredScales, find_files, read_measured_scales
from hpcai.predict.scales.model import Asked
from hpcai.predict.scales.starts import predict_from_all
from hpcai.predict.scales.trained import predict_trained, read_trained
from hpcai.predict.what_if.intervals import ErrorInterval, centred_interval
from hpcai.predict.what_if.measured import Point

CASES, SEED, TOLERANCE_RATIO = 200, 20261126, 0.03
RANKS, ACCUMULATIONS, GROUPS = (1, 2), (1, 2, 4), (1, 2, 4)
FUSIONS = ((2.0**18, 1e-3), (2.0**20, 5e-3))
"""Threshold [bytes] and cycle [s] of cases whose gradients Horovod fuses."""
CASE_S, FEWEST_STEPS, MOST_STEPS = 2.0, 20, 60
Exchange = tuple[int, float | None, float]
"""Groups, fusion threshold [bytes] and cycle [s]; NaN: Horovod's default."""


@dataclass(frozen=True)
class Wanted:
    """A case: what is trained, its prediction [s], and the interval [s] (NaN: none).

    Without a question, it is a scale of the study, which tells the state of the host; its step there is the prediction.
    """

    point: Point
    asked: Asked
    question: str
    step_s: float
    low_s: float
    high_s: float

    @property
    def session(self) -> tuple[str, int, float | None, float]:
        """What trains in the same processes."""
        setting, cycle_s = self.asked.setting, self.asked.cycle_s
        return self.point.benchmark, setting.ranks, setting.fusion_bytes, -1.0 if math.isnan(cycle_s) else cycle_s


def main() -> None:
    """Choose, predict and measure the cases, and print how many are inside; fail if the share is not as claimed."""
    options = _arguments()
    try:
        measured = read_measured_scales(find_files(options.results), options.results / "runs")
    except HpcaiError as error:
        sys.exit(f"not measured: {error}")
    if options.again:
        sys.exit(_report(read_again(measured, options.again), len(read_trained(options.again))))
    wanted = choose(measured, options.cases, options.seed)
    sessions = _with_own_scales(measured, wanted)
    print(f"{len(wanted)} cases in {len(sessions)} sessions of ranks that stay; seed {options.seed}", flush=True)
    rows, started_s, start = [], time.monotonic(), look()
    with tempfile.TemporaryDirectory() as folder:
        for number, cases in enumerate(sessions, 1):
            rows += _measure(cases, Path(folder), str(number))
            print(f"session {number} of {len(sessions)}: {len(rows)} trainings, {time.monotonic() - started_s:.0f} s",
                  file=sys.stderr, flush=True)  # fmt: skip
    print(say_disturbance(disturbance_of([use_since(start)])))
    table = beside_own_scales(pd.DataFrame(rows))
    if options.table:
        table.to_csv(options.table, index=False)
    sys.exit(_report(table, len(wanted)))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path, nargs="?", default=Path("results"), help="results folder of a study")
    parser.add_argument("--cases", type=int, default=CASES)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--table", type=Path, help="CSV of all cases")
    parser.add_argument("--again", type=Path, help="predict the cases of such a CSV again; measure nothing")
    return parser.parse_args()


def choose(measured: MeasuredScales, count: int, seed: int) -> list[Wanted]:
    """Return cases that have a prediction with an interval, spread evenly over benchmarks and kinds of question."""
    interval, kinds = interval_of(hold_out(measured), OTHERS), defaultdict(list)
    for point, asked in _possible(measured):
        if found := _predict(measured, interval, point, asked):
            kinds[(found.point.benchmark, found.question)].append(found)
    chance = random.Random(seed)
    for kind in sorted(kinds):
        chance.shuffle(kinds[kind])
    chosen: list[Wanted] = []
    while len(chosen) < count and any(kinds.values()):
        for kind in sorted(kinds):
            if kinds[kind] and len(chosen) < count:
                chosen.append(kinds[kind].pop())
    return chosen


def _possible(measured: MeasuredScales) -> Iterator[tuple[Point, Asked]]:
    """Yield all settings that the study did not measure, each with a measured point of its benchmark and precision."""
    known = [(point.benchmark, point.setting) for point in measured.points]
    firsts = {(point.benchmark, point.setting.precision): point for point in reversed(measured.points)}
    for (benchmark, _), point in sorted(firsts.items()):
        batches = [step.batch for step in measured.steps if step.network == benchmark]
        own = [one.setting.micro_batch for one in measured.points if one.benchmark == benchmark]
        micro_batches = sorted({*_between(batches), *map(int, own)})
        for ranks, micro, accumulation in product(RANKS, micro_batches, ACCUMULATIONS):
            for groups, fusion_bytes, cycle_s in _exchanges(ranks):
                setting = replace(
                    point.setting, nodes=1, ranks=ranks, global_batch=micro * accumulation * ranks, compression="none",
                    accumulation=accumulation, gradient_groups=groups, fusion_bytes=fusion_bytes,
                )  # fmt: skip
                if (benchmark, setting) not in known and setting.global_batch <= _train_samples(benchmark):
                    yield point, Asked(setting, cycle_s)


@cache
def _train_samples(benchmark: str) -> int:
    return bench_plan(benchmark, {}).benchmark.data.train_samples


def _between(batches: Sequence[int]) -> list[int]:
    """Return five batches from the smallest to the largest that blocks were timed at."""
    return [round(one) for one in np.linspace(min(batches), max(batches), 5)] if batches else []


def _exchanges(ranks: int) -> list[Exchange]:
    if ranks == 1:
        return [(1, None, math.nan)]
    return [*((groups, None, math.nan) for groups in GROUPS), *((1, size, cycle_s) for size, cycle_s in FUSIONS)]


def _predict(measured: MeasuredScales, interval: ErrorInterval, point: Point, asked: Asked) -> Wanted | None:
    own = [one for one in measured.points if one.benchmark == point.benchmark and one.engine == point.engine]
    starts, step = predict_from_all(measured, own, asked)
    low_s, high_s = interval.around(step.step_s)
    kind = question_of(starts[0].setting, asked.setting)
    return Wanted(starts[0], asked, kind, step.step_s, low_s, high_s) if math.isfinite(low_s) else None


def read_again(measured: MeasuredScales, file: Path) -> pd.DataFrame:
    """Return a table of measured cases as the study predicts them now; those it says nothing of are left out."""
    interval, table = interval_of(hold_out(measured), OTHERS), pd.read_csv(file)
    rows = []
    for row, trained in zip(table.to_dict("records"), read_trained(file), strict=True):
        with suppress(HpcaiError):
            step_s = predict_trained(measured, [trained])[0].found.step_s
            low_s, high_s = interval.around(step_s)
            rows.append({**row, "predicted_s": step_s, "low_s": low_s, "high_s": high_s})
    return pd.DataFrame(rows)


def _with_own_scales(measured: MeasuredScales, wanted: Sequence[Wanted]) -> list[list[Wanted]]:
    """Return the cases by what trains in the same processes, each benchmark's with its own scales between them.

    Horovod's fusion and cycle hold for all trainings of a session, so such sessions stand between two others.
    """
    own: dict[tuple[object, ...], list[Wanted]] = {}
    for point in measured.points:
        if point.setting.precision == "fp32" and point.setting.accumulation == 1:
            one = Wanted(point, Asked(point.setting, math.nan), "", point.step_s, math.nan, math.nan)
            own.setdefault(one.session, [one])
    sessions: dict[tuple[str, int, float | None, float], list[Wanted]] = defaultdict(list)
    for case in wanted:
        sessions[case.session].append(case)
    found = []
    for benchmark in sorted({case.point.benchmark for case in wanted}):
        alike = [key for key in sessions if key[0] == benchmark]
        plain, others = ([key for key in alike if (key[2] is None) == usual] for usual in (True, False))
        for key in sorted(plain):
            known, cases = own.get(key, []), sessions[key]
            middle = len(cases) // 2
            found.append([*known, *cases[:middle], *known, *cases[middle:], *known])
        found += [sessions[key] for key in others]
        found += [own[key] for key in own if key[0] == benchmark and others]
    return found


def beside_own_scales(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the cases with ``host_ratio``, by what the study's scales take longer at that time than in the study.

    Without a scale of its benchmark, a case has none.
    """
    if rows.empty:
        return rows
    is_own = rows["question"] == ""
    cases, own = rows[~is_own].assign(host_ratio=math.nan), rows[is_own].sort_values("started_s")
    print("steps of the study's own scales now over the study's, in the order of time")
    for benchmark, known in own.groupby("benchmark"):
        times = known[["measured_s", "predicted_s", "started_s"]].itertuples(index=False)
        host = HostSpeed(tuple(Again(*one) for one in times))
        print(f"  {benchmark:26} {' '.join(f'{one.ratio:.2f}' for one in host.trainings)}", flush=True)
        alike = cases["benchmark"] == benchmark
        cases.loc[alike, "host_ratio"] = host.at_times(cases.loc[alike, "started_s"].to_numpy(float))
    return cases


def _plan(point: Point, asked: Asked, steps: int) -> RunPlan:
    setting = asked.setting
    changes = {
        "ranks_per_node": setting.ranks, "precision": setting.precision, "global_batch": setting.global_batch,
        "accumulation": setting.accumulation, "gradient_groups": setting.gradient_groups,
        "fusion_bytes": setting.fusion_bytes, "cycle_time_s": None if math.isnan(asked.cycle_s) else asked.cycle_s,
    }  # fmt: skip
    machine = {"cores_per_rank": 1, "ranks_per_node": max(RANKS)}
    plan = bench_plan(point.benchmark, changes, machine)
    epochs = 2 + steps // max(plan.epoch_steps, 1)
    recipe = plan.benchmark.recipe.model_copy(update={"max_epochs": epochs, "evaluation_interval_epochs": epochs})
    benchmark = plan.benchmark.model_copy(update={"recipe": recipe})
    return plan.model_copy(update={"benchmark": benchmark, "kind": "profiled", "max_steps": steps})


def _measure(cases: Sequence[Wanted], folder: Path, name: str) -> list[dict[str, object]]:
    """Train the cases of a session; return a row for each."""
    benchmark, ranks, *_ = cases[0].session
    manifest, pack = _data(benchmark, folder)
    places = [folder / f"{name}_{place}" for place in range(len(cases))]
    for place, case in zip(places, cases, strict=True):
        place.mkdir()
        steps = WARM_STEPS + min(max(round(CASE_S / case.step_s), FEWEST_STEPS), MOST_STEPS)
        write_plan(_plan(case.point, case.asked, steps), place / "plan.json")
    session = folder / f"{name}.json"
    session.write_text(json.dumps({"folders": list(map(str, places)), "manifest": str(manifest), "pack": str(pack)}))
    program = [sys.executable, str(Path(__file__).with_name("scale_case_ranks.py")), str(session)]
    done = subprocess.run([*launch_ranks(ranks), *program], capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"session {name}, {cases[0].session}: exit status {done.returncode}: {done.stderr[-500:]}")
    return [_row(case, place) for case, place in zip(cases, places, strict=True) if (place / "steps.csv").is_file()]


@cache
def _data(benchmark: str, folder: Path) -> tuple[Path, Path]:
    return prepared(bench_plan(benchmark, {}), folder / benchmark)


def _row(case: Wanted, place: Path) -> dict[str, object]:
    setting = case.asked.setting
    steps = pd.read_csv(place / "steps.csv").iloc[WARM_STEPS:]
    times_s = steps["step_time_s"]
    return {
        "benchmark": case.point.benchmark, "question": case.question, "ranks": setting.ranks,
        "precision": setting.precision, "global_batch": setting.global_batch, "accumulation": setting.accumulation,
        "gradient_groups": setting.gradient_groups, "fusion_bytes": setting.fusion_bytes,
        "cycle_time_s": case.asked.cycle_s, "predicted_s": case.step_s, "low_s": case.low_s,
        "high_s": case.high_s, "measured_s": times_s.median(), "steps": len(times_s),
        "started_s": steps["start_s"].iloc[0],
    }  # fmt: skip


def _report(table: pd.DataFrame, wanted: int) -> int:
    """Print errors and coverage; return 0 if the share inside is as claimed."""
    known = table[table["measured_s"] > 0] if len(table) else table
    measured = len(known)
    if "host_ratio" in known:
        known = known.dropna(subset=["host_ratio"])
    if known.empty:
        print(f"{measured} of {wanted} cases measured, none beside a scale of the study that tells the host's speed")
        return 1
    if "host_ratio" in known:
        inside = known["measured_s"].between(known["low_s"], known["high_s"]).mean()
        error = (known["predicted_s"] / known["measured_s"] - 1).abs().median()
        print(f"steps as measured: {inside:.1%} inside, median error {error:.1%}; all below at the study's speed")
        known = known.assign(measured_s=known["measured_s"] / known["host_ratio"])
    known = known.assign(
        error=known["predicted_s"] / known["measured_s"] - 1,
        inside=known["measured_s"].between(known["low_s"], known["high_s"]),
        width=known["high_s"] / known["low_s"],
        change=[_change(row) for row in known.to_dict("records")],
    )
    print("cases of                        n  inside  median_error  largest  median_width")
    for column in ("question", "change", "benchmark", "precision", "ranks"):
        for name, own in known.groupby(column):
            _print(f"{column} {name}", own)
    _print("all", known)
    inside, n = int(known["inside"].sum()), len(known)
    sure = binomtest(inside, n).proportion_ci(0.95, method="wilson")
    for column in ("benchmark", "change"):
        _print_left_out(known, column)
    print(f"{n} of {wanted} measured; {inside} inside: {inside / n:.1%} ({sure.low:.1%} to {sure.high:.1%})")
    print(f"goal: {LEVEL_RATIO:.0%} +- {TOLERANCE_RATIO:.0%}")
    return int(round(abs(inside / n - LEVEL_RATIO), 9) > TOLERANCE_RATIO)


def _print(name: str, own: pd.DataFrame) -> None:
    print(
        f"{name:28}{len(own):5} {own['inside'].mean():7.1%} {own['error'].abs().median():13.1%} "
        f"{own['error'].abs().max():8.1%} {own['width'].median():13.2f}"
    )


def _change(row: dict[str, object]) -> str:
    """Name what a case changes beside ranks and batch."""
    if pd.notna(row["fusion_bytes"]):
        return "fusion and cycle"
    if row["gradient_groups"] > 1:
        return "groups"
    return "accumulation" if row["accumulation"] > 1 else "ranks and batch"


def _print_left_out(known: pd.DataFrame, column: str) -> None:
    """Print how many cases are inside intervals from the errors of all cases that differ from them in a column."""
    parts = []
    for name, own in known.groupby(column):
        others = known[known[column] != name]
        found = centred_interval(list(others["measured_s"]), list(others["predicted_s"]), str(column), LEVEL_RATIO)
        if math.isnan(found.low_ratio):
            print(f"left out {name}: {found.basis}")
            continue
        low_s, high_s = found.around(own["predicted_s"])
        parts.append(
            own.assign(inside=own["measured_s"].between(low_s, high_s), width=found.high_ratio / found.low_ratio)
        )
        _print(f"left out {name}", parts[-1])
    if parts:
        _print(f"each {column} left out", pd.concat(parts))


if __name__ == "__main__":
    main()
