"""Weak scaling: which instances count, the time for all, the effect of pruning, and violations of the rules."""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.mlperf_hpc.analysis.import_trees import deepcam_logs, write_deepcam

from hpcai.metrics.scores.columns import REPEATED
from hpcai.mlperf_hpc.analysis.energy import Energy
from hpcai.mlperf_hpc.analysis.repeats import mark_repeats
from hpcai.mlperf_hpc.analysis.round_tables import source_tables
from hpcai.mlperf_hpc.analysis.weak_pruning import best_pruning, time_to_train_all
from hpcai.mlperf_hpc.analysis.weak_scales import SHARED_NODES
from hpcai.mlperf_hpc.analysis.weak_scores import (
    BETTER_PRUNED,
    NOT_CONVERGED,
    NOT_COUNTED,
    TOO_FEW,
    score_weak,
    weak_table,
)
from hpcai.mlperf_hpc.compliance.checked_round import read_checked_round
from hpcai.mlperf_hpc.rounds.model import LoggedRun, Span, Submission, System

MINUTE_MS = 60_000.0
GOLDEN = ((0, 50), (5, 48), (2, 61))
"""Starts and stops [min] of benchmarks.md 12.1."""


def spans(minutes: Sequence[tuple[float, float]]) -> list[Span]:
    """Return intervals given in minutes."""
    return [Span(start * MINUTE_MS, stop * MINUTE_MS) for start, stop in minutes]


def instance(number: int, minutes: tuple[float, float], *, seed: Any = None, **settings: Any) -> LoggedRun:
    """Return one instance on 2 nodes of 4 accelerators."""
    return LoggedRun(
        source=f"weak/result_{number}.txt",
        number=number,
        org="ORG",
        division="closed",
        benchmark="cosmoflow",
        status="onprem",
        platform="machine",
        settings={"number_of_nodes": 2, "accelerators_per_node": 4, **settings},
        seeds=(number if seed is None else seed,),
        claim="success",
        init_s=1.0,
        run=spans([minutes])[0],
        staging=None,
        staging_before_run=False,
        epochs=(),
        evaluations=(),
        epochs_in_blocks=0,
        scores=(),
        quality_key="eval_error",
        repairs=(),
    )


def submission(
    runs: Sequence[LoggedRun], pruned: Sequence[LoggedRun] = (), nodes: int | None = 6, accelerators: int = 4
) -> Submission:
    """Return the weak results of a machine."""
    machine = System("systems/machine.json", "machine", {}, "closed", nodes, 2, accelerators, "A100", "EPYC")
    return Submission(
        "v1.0", "published", "ORG", "machine", "weak", "cosmoflow", "weak", tuple(runs), tuple(pruned), machine, None
    )


def complying(*parts: Submission) -> set[str]:
    """Return the sources of all runs."""
    return {run.source for part in parts for run in part.runs}


def golden(count: int = 3) -> list[LoggedRun]:
    """Return the instances of the golden values."""
    return [instance(number, minutes) for number, minutes in enumerate(GOLDEN[:count], start=1)]


def test_golden_time_for_all() -> None:
    all_of_them, pruned = submission(golden()), submission(golden(2), [instance(3, GOLDEN[2])])
    first = score_weak(all_of_them, complying(all_of_them), "2.0.0", 2)
    assert first.time_to_train_all_s == 61 * 60
    assert first.models_per_min == pytest.approx(3 / 61)
    second = score_weak(pruned, complying(pruned), "2.0.0", 2)
    assert second.time_to_train_all_s == 50 * 60
    assert (second.instances, second.counted) == (3, 2)
    assert (second.scales.whole, second.scales.instance, second.scales.unit) == (24, 8, "accelerator")
    assert second.reason == ""


def test_an_instance_that_does_not_comply_is_left_out_and_named() -> None:
    weak = submission(golden())
    score = score_weak(weak, complying(weak) - {"weak/result_3.txt"}, "2.0.0", 2)
    assert score.time_to_train_all_s == 50 * 60
    assert score.counted == 2
    assert NOT_COUNTED(files="result_3.txt") in score.reason


def test_too_few_instances_leave_no_score() -> None:
    weak = submission(golden())
    score = score_weak(weak, complying(weak), "2.0.0", 10)
    assert math.isnan(score.time_to_train_all_s)
    assert math.isnan(score.models_per_min)
    assert TOO_FEW(counted=3, needed=10) in score.reason


def test_no_instance_at_all_leaves_no_score() -> None:
    score = score_weak(submission(golden()), set(), "2.0.0", 2)
    assert math.isnan(score.time_to_train_all_s)
    assert math.isnan(score.scales.instance)


def test_instances_of_different_scales_leave_no_score() -> None:
    weak = submission([*golden(2), instance(3, GOLDEN[2], number_of_nodes=3)])
    score = score_weak(weak, complying(weak), "2.0.0", 2)
    assert math.isnan(score.time_to_train_all_s)
    assert math.isnan(score.scales.instance)
    assert "instances of different scales (8, 12)" in score.reason


def test_a_machine_without_accelerators_counts_nodes() -> None:
    runs = [instance(n, minutes, accelerators_per_node=0) for n, minutes in enumerate(GOLDEN, start=1)]
    weak = submission(runs, nodes=6, accelerators=0)
    score = score_weak(weak, complying(weak), "2.0.0", 3)
    assert (score.scales.whole, score.scales.instance, score.scales.unit) == (6, 2, "node")


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        (1, "S <= T does not hold: S = 8 in the logs, T = 4 in the system file"),
        (7, "T <= M x S does not hold: T = 28 in the system file, M x S = 3 x 8"),
        (None, "T unknown"),
    ],
)
def test_whole_system_lies_between_one_and_all_instances(nodes: int | None, words: str) -> None:
    weak = submission(golden(), nodes=nodes)
    assert words in score_weak(weak, complying(weak), "2.0.0", 3).reason


def test_instances_at_the_same_time_have_to_fit_into_the_system() -> None:
    """Three published submissions log the nodes of the whole machine in every instance."""
    words = "3 instances ran at the same time, 3 x 24 do not fit into T = 24"
    beside = submission([instance(n, span, number_of_nodes=6) for n, span in enumerate(GOLDEN, start=1)])
    assert words in score_weak(beside, complying(beside), "2.0.0", 3).reason
    behind = submission([instance(n, (60 * n, 60 * n + 50), number_of_nodes=6) for n in (1, 2, 3)])
    assert "do not fit" not in score_weak(behind, complying(behind), "2.0.0", 3).reason


def test_instances_that_share_nodes_are_not_called_impossible() -> None:
    """T and S count whole nodes of a machine without accelerators, on which several instances may run."""
    runs = [instance(n, span, number_of_nodes=1, accelerators_per_node=0) for n, span in enumerate(GOLDEN, start=1)]
    weak = submission(runs, nodes=1, accelerators=0)
    reason = score_weak(weak, complying(weak), "2.0.0", 3).reason
    assert SHARED_NODES(instances=3, whole=1, own=1) in reason
    assert "not possible" not in reason


def test_an_instance_that_says_it_was_aborted_counts_and_is_named() -> None:
    """Its quality meets the target, so the package counts it. The rules require that all counted ones converged."""
    weak = submission([*golden(2), replace(instance(3, GOLDEN[2]), claim="aborted")])
    score = score_weak(weak, complying(weak), "2.0.0", 3)
    assert (score.counted, score.time_to_train_all_s) == (3, 61 * 60)
    assert NOT_CONVERGED(files="result_3.txt (aborted)") in score.reason
    assert "run_stop" not in score_weak(submission(golden()), complying(weak), "2.0.0", 3).reason


def test_instances_published_again_are_marked(tmp_path: Path) -> None:
    """This also holds when rounds are read one by one, for any name of the organisation."""
    runs, weak = [], []
    for name, org in (("v1.0", "LBNL"), ("v2.0", "HPE+LBNL"), ("v3.0", "HPE")):
        # The last of them has one instance of other length.
        lengths = [100.0, 90.0, 110.0, 95.0, 105.0 if name != "v3.0" else 106.0]
        logs = deepcam_logs(lengths, number_of_nodes=1)
        write_deepcam(tmp_path / name, logs, org=org, scaling="weak")
        tables = source_tables([read_checked_round(tmp_path / name, name=name)])
        runs.append(tables["mlperf_runs"])
        weak.append(tables["mlperf_weak"])
    marked = mark_repeats(pd.concat(weak), pd.concat(runs)).set_index("origin")["reason"]
    assert marked["v2.0"].startswith(f"{REPEATED} v1.0 LBNL/machine")
    assert REPEATED not in marked["v1.0"] + marked["v3.0"]
    newest_first = mark_repeats(pd.concat(weak[::-1]), pd.concat(runs[::-1])).set_index("origin")["same_runs_as"]
    assert newest_first.to_dict() == {"v3.0": "", "v2.0": "v1.0 LBNL/machine", "v1.0": ""}


@pytest.mark.parametrize(
    ("energies_j", "expected_j"),
    [([1e3, 2e3, 4e3], 7e3), ([1e3, 2e3], math.nan), ([1e3, 2e3, math.nan], math.nan), ([], math.nan)],
)
def test_the_energy_is_that_of_all_counted_instances_or_unknown(
    tmp_path: Path, energies_j: list[float], expected_j: float
) -> None:
    write_deepcam(tmp_path / "v2.0", deepcam_logs([100.0, 90.0, 110.0], number_of_nodes=1), org="ORG", scaling="weak")
    checked = read_checked_round(tmp_path / "v2.0", name="v2.0")
    runs = [run for part in checked.round.submissions for run in part.runs]
    known = zip(runs, energies_j, strict=False)
    energies = {("v2.0", run.source): Energy(energy_j) for run, energy_j in known}
    (row,) = weak_table([checked], energies).to_dict("records")
    assert row["counted_instances"] == 3
    assert row["energy_j"] == pytest.approx(expected_j, nan_ok=True)


def test_missing_scale_is_said() -> None:
    weak = submission([instance(n, minutes, number_of_nodes=None) for n, minutes in enumerate(GOLDEN, start=1)])
    score = score_weak(weak, complying(weak), "2.0.0", 3)
    assert score.time_to_train_all_s == 61 * 60
    assert "S unknown" in score.reason


def test_equal_seeds_have_to_be_pruned_from_rule_set_2_on() -> None:
    weak = submission([*golden(2), instance(3, GOLDEN[2], seed=1)])
    words = "instances with equal seeds have to be pruned (result_3.txt as result_1.txt)"
    assert words in score_weak(weak, complying(weak), "2.0.0", 3).reason
    assert "seeds" not in score_weak(weak, complying(weak), "1.0.0", 3).reason


def test_it_is_said_when_pruning_would_raise_the_throughput() -> None:
    weak = submission([*golden(2), instance(3, (2, 200))])
    score = score_weak(weak, complying(weak), "2.0.0", 2)
    assert BETTER_PRUNED(count=2, time_s=3000, models_per_min=0.04) in score.reason


@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(1, 30)), min_size=1, max_size=7),
    st.data(),
)
def test_best_pruning_is_the_best_of_all_choices(shapes: list[tuple[int, int]], data: st.DataObject) -> None:
    runs = spans([(start, start + length) for start, length in shapes])
    at_least = data.draw(st.integers(1, len(runs)))
    choices = [
        choice for count in range(at_least, len(runs) + 1) for choice in combinations(runs, count)
    ]  # the rate of the best choice; which of equal ones is taken does not matter
    count, time_s = best_pruning(runs, at_least)
    best = max(len(choice) / time_to_train_all(choice) for choice in choices)
    assert count >= at_least
    assert count / time_s == pytest.approx(best)
