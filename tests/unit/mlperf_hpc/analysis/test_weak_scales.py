"""The scale of an instance is a possible one: from its ranks, its nodes, or the share left by the others."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from unit.mlperf_hpc.analysis.import_trees import deepcam_logs, tables_of, write_deepcam
from unit.mlperf_hpc.analysis.made_runs import made_round, made_run, made_submission, made_system, span

from hpcai.mlperf_hpc.analysis.tables import TOO_MANY_NODES, run_table
from hpcai.mlperf_hpc.analysis.weak_scales import (
    DERIVED,
    IMPOSSIBLE,
    LARGER_THAN_WHOLE,
    LOGGED,
    NO_FIT,
    OTHER_SCALE,
    RANKS,
    WeakScales,
    read_scales,
)
from hpcai.mlperf_hpc.rounds.model import LoggedRun

TOGETHER = ((0, 50), (5, 48), (2, 61), (1, 40))
"""Starts and stops [s] of four instances; T is 4 nodes of 8 accelerators."""
IN_TURN = ((0, 10), (10, 20), (20, 30), (30, 40))


def instances(spans: Sequence[tuple[float, float]] = TOGETHER, **settings: Any) -> list[LoggedRun]:
    return [
        made_run(number, run=span(*ends), settings=settings, source=f"weak/result_{number}.txt")
        for number, ends in enumerate(spans, start=1)
    ]


def scales_of(runs: Sequence[LoggedRun], pruned: Sequence[LoggedRun] = (), **system: Any) -> WeakScales:
    weak = made_submission(list(runs), scaling="weak", pruned=tuple(pruned), system=made_system(**system))
    return read_scales(weak, runs)


def say(scales: WeakScales, count: int = 4) -> str:
    return "; ".join(scales.reasons(count))


@pytest.mark.parametrize(
    ("settings", "own", "source"),
    [
        ({"number_of_ranks": 8, "number_of_nodes": 1, "accelerators_per_node": 8}, 8, RANKS),
        ({"number_of_ranks": "8"}, 8, RANKS),
        ({"number_of_nodes": 1, "accelerators_per_node": 8}, 8, LOGGED),
        # Every log gives the nodes of the whole system.
        ({"number_of_ranks": 8, "number_of_nodes": 4, "accelerators_per_node": 8}, 8, RANKS),
        # Its ranks as well.
        ({"number_of_ranks": 32, "number_of_nodes": 4, "accelerators_per_node": 8}, 8, DERIVED),
        ({"number_of_nodes": 4, "accelerators_per_node": 8}, 8, DERIVED),
        ({"number_of_ranks": 32, "number_of_nodes": 1, "accelerators_per_node": 8}, 8, LOGGED),
    ],
)  # fmt: skip
def test_ranks_come_first_then_nodes_then_what_all_leave_each_other(settings, own, source) -> None:
    scales = scales_of(instances(**settings))
    assert (scales.whole, scales.instance, scales.source) == (32, own, source)
    nodes, per_node = settings.get("number_of_nodes"), settings.get("accelerators_per_node")
    assert scales.logged == nodes * per_node if nodes else math.isnan(scales.logged)
    assert "not possible" not in say(scales)
    assert "does not hold" not in say(scales)


def test_what_cannot_be_is_named_with_the_reason() -> None:
    ranks = say(scales_of(instances(number_of_ranks=8, number_of_nodes=4, accelerators_per_node=8)))
    why = IMPOSSIBLE(why=NO_FIT(instances=4, value=32, whole=32))
    assert ranks == OTHER_SCALE(own=8, source=RANKS, names=LOGGED, value=32, why=why)
    both = say(scales_of(instances(number_of_ranks=64, number_of_nodes=8, accelerators_per_node=8)))
    why = IMPOSSIBLE(why=LARGER_THAN_WHOLE(whole=32))
    assert both == OTHER_SCALE(own=8, source=DERIVED, names=f"{RANKS} as well as {LOGGED}", value=64, why=why)


def test_instances_in_turn_may_each_have_the_whole_system() -> None:
    scales = scales_of(instances(IN_TURN, number_of_nodes=4, accelerators_per_node=8))
    assert (scales.instance, scales.source, scales.peak) == (32, LOGGED, 1)


@pytest.mark.parametrize("case", ["no whole number", "not all at the same time", "pruned ones beside them"])
def test_nothing_is_derived_where_it_does_not_follow(case) -> None:
    told = {"number_of_nodes": 4, "accelerators_per_node": 8}
    if case == "no whole number":
        scales = scales_of(instances(TOGETHER[:3], **told))
    elif case == "not all at the same time":
        scales = scales_of(instances([*TOGETHER[:2], (100, 110), (100, 110)], **told))
    else:
        scales = scales_of(instances(**told), [replace(run, number=9) for run in instances(TOGETHER[:1], **told)])
    assert (math.isnan(scales.instance), scales.source, scales.logged) == (True, "", 32)
    assert "not possible" in say(scales)


def test_ranks_may_share_a_node_without_accelerators() -> None:
    told = {"number_of_ranks": 96, "number_of_nodes": 1, "accelerators_per_node": 0}
    scales = scales_of(instances(**told), accelerators_per_node=0)
    assert (scales.whole, scales.instance, scales.unit, scales.source) == (4, 1, "node", LOGGED)


def test_ranks_that_differ_are_no_scale() -> None:
    runs = [replace(run, settings={"number_of_ranks": run.number}) for run in instances()]
    scales = scales_of(runs)
    assert math.isnan(scales.instance)
    assert "number_of_ranks differs between the instances: 1, 2, 3, 4" in say(scales)


def test_without_a_system_file_the_logs_are_believed() -> None:
    weak = made_submission(instances(number_of_nodes=1, accelerators_per_node=8), scaling="weak", system=None)
    scales = read_scales(weak, weak.runs)
    assert (scales.instance, scales.unit) == (8, "accelerator")
    assert "T unknown" in say(scales)


@pytest.mark.parametrize("count", [10**30, "9" * 15, -1, 1.5, math.nan, math.inf, True, "many", [8]])
def test_senseless_counts_are_no_scale(count) -> None:
    keys = ("number_of_ranks", "number_of_nodes", "accelerators_per_node")
    scales = scales_of(instances(**dict.fromkeys(keys, count)))
    assert (math.isnan(scales.instance), math.isnan(scales.logged)) == (True, True)
    assert "S unknown" in say(scales)


def test_instances_have_the_same_scale_in_the_table_of_runs() -> None:
    told = {"number_of_ranks": 16, "number_of_nodes": 4, "accelerators_per_node": 8}
    weak = made_submission(instances(TOGETHER[:2], **told), scaling="weak")
    runs = run_table([made_round(weak)])
    assert runs["units"].tolist() == [16, 16]
    assert runs["nodes"].tolist() == [2, 2]
    assert runs["logged_nodes"].tolist() == [4, 4]
    assert runs["reason"].str.contains(f"{TOO_MANY_NODES(logged_nodes=4)}: S is {RANKS}", regex=False).all()


def test_a_scale_that_cannot_be_is_none_in_the_table_of_runs() -> None:
    told = {"number_of_nodes": 4, "accelerators_per_node": 8}
    runs = run_table([made_round(made_submission(instances(TOGETHER[:3], **told), scaling="weak"))])
    assert runs[["units", "nodes", "accelerators"]].isna().all().all()
    assert runs["logged_nodes"].tolist() == [4, 4, 4]


def test_table_has_the_scale_and_what_was_logged_beside_each_other(tmp_path: Path) -> None:
    """One published round logs 512 nodes of 8 in each of 60 instances that 64 ranks train."""
    logs = deepcam_logs([100.0, 90.0, 110.0, 95.0], number_of_nodes=4, number_of_ranks=8)
    write_deepcam(tmp_path, logs, scaling="weak")
    row = tables_of(tmp_path)["mlperf_weak"].iloc[0]
    assert (row["whole_scale"], row["instance_scale"], row["logged_instance_scale"]) == (32, 8, 32)
    assert row["instance_scale_source"] == "number_of_ranks"
