"""Points are lost for what a record lacks, each with its advice; nothing else changes the score."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from unit.record_factory import make_machine, make_provenance, make_record, make_study
from unit.refusals import refused
from unit.score_factory import make_power, make_scores

from hpcai.catalogue.points import POINT
from hpcai.core.disturbance import Disturbance
from hpcai.core.errors import RecordError
from hpcai.metrics.reproducibility import (
    FULL,
    ITEMS,
    MEASURED,
    RAISE,
    REPEAT_POINTS,
    judge_record,
    lacks_power,
    reproducibility_table,
    runs_of_studies,
)
from hpcai.metrics.run_tables import RUN_TWICE
from hpcai.records.run import Artefact, RunRecord

PEAK = {"fp32": {"rate_flop_per_s": "1 TFLOP/s", "source": "data sheet"}}
POWER = {"node_power_w": "100 W", "source": "meter"}
QUIET = Disturbance(node="node0", cores=4, wall_s=10.0, others_s=0.0, steal_s=0.0)
BUSY = QUIET.model_copy(update={"others_s": 20.0})


def full_record(
    machine: dict[str, Any] | None = None, provenance: dict[str, Any] | None = None, **record: Any
) -> RunRecord:
    """Return a record that lacks nothing."""
    known = {"page_cache": "dropped", **(provenance or {})}
    fields = {
        "provenance": make_provenance(**known),
        "artefacts": (Artefact(path="mllog.txt", bytes=1, sha256="00" * 32),),
        "disturbance": (QUIET,),
        **record,
    }
    described = make_machine(**{"device": {"kind": "cpu", "peaks": PEAK}, "power": POWER, **(machine or {})})
    return make_record(record=fields, machine=described)


def test_a_record_that_lacks_nothing_has_all_points() -> None:
    assert {name: item.points for name, item in judge_record(full_record()).items()} == {
        name: points for name, (points, _) in ITEMS.items()
    }
    assert FULL == 100


@pytest.mark.parametrize(
    ("make", "item", "lost", "advice"),
    [
        (lambda: full_record(provenance={"commit": None}), "code", 6, "no_commit"),
        (lambda: full_record(provenance={"dirty": True}), "code", 6, "changed_code"),
        (lambda: full_record(provenance={"dirty": None}), "code", 6, "changed_code"),
        (lambda: full_record(provenance={"lock_sha256": None}), "software", 8, "no_lock"),
        (lambda: full_record(provenance={"software": {"python": "3.11"}}), "software", 4, "no_framework"),
        (lambda: full_record(data_source="existing"), "data", 8, "data_of_the_site"),
        (lambda: full_record(provenance={"pack_digest": None}), "data", 3, "not_packed"),
        (lambda: full_record(artefacts=()), "raw_files", 10, "no_raw_files"),
        (lambda: full_record(provenance={"command": ()}), "launcher", 4, "no_command"),
        (lambda: full_record(launch_s=None), "launcher", 2, "launched_elsewhere"),
        (lambda: full_record(machine={"device": {"kind": "cpu"}}), "peaks", 6, "no_peak"),
        (lambda: full_record(machine={"power": None}), "power", 4, "no_power"),
        (lambda: full_record(disturbance=(BUSY,)), "disturbance", 6, "disturbed"),
        (lambda: full_record(provenance={"page_cache": "kept"}), "page_cache", 4, "page_cache"),
    ],
)
def test_each_lack_costs_its_points_and_says_what_would_raise_it(
    make: Callable[[], RunRecord], item: str, lost: float, advice: str
) -> None:
    judged = judge_record(make())
    missing = {name: ITEMS[name][0] - one.points for name, one in judged.items() if one.points < ITEMS[name][0]}
    assert missing == {item: lost}
    assert judged[item].advice == RAISE[advice]()


def test_use_by_others_that_nobody_watched_has_no_points_at_all() -> None:
    assert judge_record(full_record(disturbance=()))["disturbance"].points == 0


def test_a_failed_run_loses_placement_and_launch_but_is_judged() -> None:
    judged = judge_record(make_record("failed", record={"launch_s": None}))
    assert (judged["placement"].points, judged["seed"].points) == (0, ITEMS["seed"][0])
    assert judged["launcher"].advice == RAISE["no_launch_time"]()


def test_accelerators_without_uuid_lose_points() -> None:
    gpu = {"device": {"kind": "gpu", "peaks": PEAK}, "accelerators_per_node": 4}
    assert judge_record(full_record(machine=gpu))["placement"].points == 5


def test_a_point_has_the_fewest_points_of_its_runs_and_its_share_of_repeats() -> None:
    records = make_study((1,), repeats=4)
    poor = make_record(repetition=5, record={"provenance": make_provenance(commit=None)})
    one, other = (reproducibility_table(runs).iloc[0] for runs in (records, [*records, poor]))
    assert (one["code_points"], other["code_points"]) == (12, 6)
    assert one["repeats_points"] == pytest.approx(REPEAT_POINTS * 4 / 10)
    points = [name for name in one.index if str(name).endswith("_points")]
    assert one["reproducibility_score"] == pytest.approx(one[points].sum())
    assert 0 < one["reproducibility_score"] < FULL
    assert RAISE["few_repeats"].find_in(one["advice"]) is not None


def test_measured_power_counts_like_declared_power(tmp_path: Path) -> None:
    records = make_study((1, 2), repeats=1)
    table = reproducibility_table(records, scores_of(tmp_path, records, rapl=100.0, nvml=math.nan)).set_index("scale")
    assert table["power_points"].to_dict() == {"n1x1": 4, "n1x2": 0}
    assert lacks_power(table)
    assert not lacks_power(table.loc[["n1x1"]])


def test_a_meter_without_power_measured_none(tmp_path: Path) -> None:
    records = make_study((1,), repeats=1)
    (points,) = reproducibility_table(records, scores_of(tmp_path, records, rapl=0.0, nvml=math.nan))["power_points"]
    assert points == 0


GPU = {"device": {"kind": "gpu"}, "accelerators_per_node": 4}


@pytest.mark.parametrize(("nodes", "machine", "points"), [(1, {}, 4), (4, {}, 0), (1, GPU, 0)])
def test_power_that_the_scores_refuse_has_no_points(
    tmp_path: Path, nodes: int, machine: dict[str, Any], points: int
) -> None:
    """RAPL of one node is neither the power of four nor that of accelerators."""
    records = [make_record(nodes=nodes, machine=make_machine(**machine))]
    (found,) = reproducibility_table(records, scores_of(tmp_path, records, rapl=100.0))["power_points"]
    assert found == points


def test_a_run_without_a_score_does_not_hide_the_power_of_the_others(tmp_path: Path) -> None:
    records = [make_record("failed"), make_record(repetition=2)]
    scores = scores_of(tmp_path, records, rapl=100.0)
    assert scores.set_index("run_id")["power_method"].isin([MEASURED]).to_list() == [False, True]
    (points,) = reproducibility_table(records, scores)["power_points"]
    assert points == 4


def test_runs_of_two_machines_or_studies_are_no_repeats_of_each_other() -> None:
    other = make_machine(name="otherbox")
    records = {Path(name): make_record(**plan) for name, plan in
               {"a": {}, "b": {"machine": other}, "c": {"study": "later"}, "d": {"repetition": 2}}.items()}  # fmt: skip
    studies = runs_of_studies(records.items())
    assert {key: [path.name for path in runs] for key, runs in studies.items()} == {
        ("default", "testbox"): ["a", "d"],
        ("default", "otherbox"): ["b"],
        ("later", "testbox"): ["c"],
    }
    with refused(RecordError, RUN_TWICE):
        runs_of_studies([*records.items(), (Path("e"), records[Path("a")])])


def scores_of(folder: Path, records: list[RunRecord], **watts: float) -> pd.DataFrame:
    """Return the scores of runs; the meters told the power at the smallest scale."""
    first = records[0].plan
    point = {name: getattr(first.point, name) for name in POINT}
    power = pd.concat([make_power(point, meter, mean_power_w) for meter, mean_power_w in watts.items()])
    return make_scores(folder, records, machine=first.machine, power=power)["run_scores"]
