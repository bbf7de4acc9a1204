"""Tables from which scores are made, for tests: runs of both suites, their work, and no power."""

from pathlib import Path
from typing import Any

import pandas as pd
from unit.record_factory import make_image_benchmark, make_machine, make_record, make_two_suites, write_records

from hpcai.config.machine import Machine
from hpcai.metrics.run_tables import collect_runs, summarise_scales
from hpcai.metrics.scores.result_scores import name_datasets, name_divisions, score_scales
from hpcai.metrics.scores.trial_scores import score_trials
from hpcai.profiles.views import VIEWS, as_view
from hpcai.records.run import RunRecord

Tables = dict[str, pd.DataFrame]
FLOP_PER_SAMPLE = {"cosmoflow_tiny": 3e7, "images_tiny": 4e6}
QUALITIES = (0.5, 0.55, 0.6, 0.65, 0.7)


def make_power(point: dict[str, Any], instrument: str = "rapl", mean_power_w: float = 200.0) -> pd.DataFrame:
    """Return the power of one profiled run; ``point`` holds benchmark, variant and scale."""
    source = f"results/profiles/power/{point['benchmark']}/raw/power_{instrument}.csv"
    row = {**point, "instrument": instrument, "mean_power_w": mean_power_w, "reasons": "", "source": source}
    return as_view("power", [row])


def make_work(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the work of every scale by two methods, of which the scores use the formula."""
    keys = ["benchmark", "variant", "engine", "scale", "ranks"]
    points = runs.groupby(keys, as_index=False, sort=False)["train_rate_samples_per_s"].mean().to_dict("records")
    rows = [
        {
            **point,
            "method": method,
            "flop_per_sample": factor * FLOP_PER_SAMPLE[str(point["benchmark"])],
            "rate_flop_per_s": factor * FLOP_PER_SAMPLE[str(point["benchmark"])] * point["train_rate_samples_per_s"],
            "reason": "",
            "source": f"results/characterise/work/{point['benchmark']}.json",
        }
        for point in points
        for method, factor in (("formula_sixfold", 1.2), ("formula", 1.0))
    ]
    return as_view("work", rows)


def make_trials(count: int = 5, **plan: Any) -> list[RunRecord]:
    """Return trials of image classification whose last qualities are QUALITIES around a target of 0.6."""
    benchmark = make_image_benchmark()
    records = []
    for repetition in range(1, count + 1):
        record = make_record("not_converged", benchmark=benchmark, repetition=repetition, **plan)
        training = record.training
        assert training is not None
        quality = QUALITIES[(repetition - 1) % len(QUALITIES)]
        last = training.epochs[-1].model_copy(update={"quality": quality})
        outcome = "converged" if quality >= benchmark.target.value else "not_converged"
        changes = {"epochs": (*training.epochs[:-1], last), "outcome": outcome}
        update = {"training": training.model_copy(update=changes), "outcome": outcome}
        records.append(record.model_copy(update=update))
    return records


def make_scores(
    folder: Path,
    records: list[RunRecord] | None = None,
    *,
    machine: Machine | None = None,
    power: pd.DataFrame | None = None,
) -> Tables:
    """Return the tables of runs, scales, work, scored runs and scores."""
    known = make_two_suites() if records is None else records
    runs = collect_runs(write_records(known, folder))
    work, scales = make_work(runs), summarise_scales(runs)
    power = pd.DataFrame(columns=list(VIEWS["power"])) if power is None else power
    machine = machine or make_machine()
    run_scores = score_trials(runs, work, power, machine)
    divisions = name_divisions(known)
    scores = score_scales(run_scores, runs, scales, name_datasets(known), machine, divisions=divisions)
    return {"runs": runs, "scales": scales, "work": work, "power": power, "run_scores": run_scores, "scores": scores}
