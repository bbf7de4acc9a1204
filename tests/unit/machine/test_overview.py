"""A machine in one table: the best of each benchmark by its own rule, and why there is none where there is none."""

import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from unit.parsers.artefacts import sample
from unit.view_factory import make_ceilings, make_point

from hpcai.catalogue.tables import columns_of
from hpcai.machine.hpl.report import HplReport, HplRun
from hpcai.machine.overview import NO_HPL, NO_MXP, NO_POWER_OF_HPL, NOT_IO500, machine_overview


def score(suite: str, benchmark: str, **values: Any) -> dict[str, Any]:
    known = {"method": "measured", "variant": "fp32", "scale": "n1x1", "n_scored": 2, "valid_for": "not valid"}
    known |= {"statistic": "median of 2"}
    return {"suite": suite, "benchmark": benchmark, **known, "power_method": "", "reason": "", "source": "s", **values}


SCORES = [
    score("mlperf_hpc", "cosmo", time_to_train_s=9.0),
    score("mlperf_hpc", "cosmo", time_to_train_s=7.0, scale="n1x2", flop_per_j=2e9, power_method="declared"),
    score("mlperf_hpc", "deepcam", reason="the target was not reached"),
    score("hpc_ai500", "images", vflops_flop_per_s=3e12),
    score("hpc_ai500", "images", vflops_flop_per_s=5e12, scale="n1x4"),
]
HPL_CELL = ("TOP500", "rate", "HPL")
HPL = {"order": 2000, "block": 64, "process_rows": 1, "process_columns": 1}


def tables(**changed: pd.DataFrame) -> dict[str, pd.DataFrame]:
    power = pd.DataFrame([{**make_point(), "instrument": "rapl", "mean_power_w": 90.0}]).reindex(
        columns=columns_of("power")
    )
    scores = pd.DataFrame(SCORES).reindex(columns=columns_of("scores"))
    return {"scores": scores, "ceilings": make_ceilings(), "power": power, **changed}


def report(folder: Path, *runs: dict[str, Any]) -> Path:
    path = folder / "hpl.json"
    path.write_text(HplReport(runs=tuple(HplRun(**HPL, **run) for run in runs)).model_dump_json())
    return path


def cell(table: pd.DataFrame, origin: str, quantity: str, what: str) -> pd.Series:
    (row,) = [
        row for _, row in table.iterrows() if (row["list"], row["quantity"], row["what"]) == (origin, quantity, what)
    ]
    return row


def test_each_list_has_the_best_by_its_own_rule(tmp_path: Path) -> None:
    runs = [
        {"measured_rate_flop_per_s": rate, "verdict": verdict, "measured_time_s": 9.0}
        for rate, verdict in ((4e10, "passed"), (9e10, "failed"))
    ]
    table = machine_overview(tables(), [report(tmp_path, *runs)], [])
    assert list(table.columns) == list(columns_of("machine_overview"))
    best = cell(table, "MLPerf HPC", "time to train", "cosmo")
    assert (best["value"], best["unit"], best["n"]) == (7.0, "s", 2)  # the shortest
    assert "n1x2" in best["setting"]
    assert cell(table, "HPC AI500", "VFLOPS", "images")["value"] == 5e12  # the largest
    efficiency = cell(table, "MLPerf HPC", "FLOPS per watt", "cosmo")
    assert (efficiency["value"], efficiency["method"]) == (2e9, "declared")
    hpl = cell(table, "TOP500", "rate", "HPL")
    assert (hpl["value"], hpl["n"], hpl["method"]) == (4e10, 1, "measured")  # a failed check is no score
    assert "N 2000" in hpl["setting"]
    assert cell(table, "STREAM", "memory bandwidth", "NumPy add")["value"] == 2.1e10
    read = cell(table, "IO500", "read bandwidth", "shared")
    assert read["value"] == 1.4e9
    assert NOT_IO500() in read["reason"]
    assert cell(table, "energy", "power of training", "rapl")["value"] == 90.0
    assert table.loc[table["value"].notna(), "rule"][table["list"] != "energy"].astype(bool).all()


def test_a_run_of_hpl_that_its_gate_refused_is_not_the_best(tmp_path: Path) -> None:
    quiet = {"verdict": "passed", "measured_time_s": 9.0, "cpu_ratio": 0.999, "accepted": True}
    disturbed = quiet | {"cpu_ratio": 0.6, "accepted": False, "reason": "off core"}
    short = quiet | {"measured_time_s": 0.1, "accepted": False, "reason": "too short"}
    slow, fast = quiet | {"measured_rate_flop_per_s": 4e10}, {"measured_rate_flop_per_s": 9e10}
    row = cell(machine_overview(tables(), [report(tmp_path, slow, disturbed | fast, short | fast)], []), *HPL_CELL)
    assert (row["value"], row["n"]) == (4e10, 1)
    row = cell(machine_overview(tables(), [report(tmp_path, disturbed | fast)], []), *HPL_CELL)
    assert math.isnan(row["value"])
    assert row["reason"] == "off core"


def test_a_site_s_own_hpl_counts_although_its_cores_cannot_be_seen(tmp_path: Path) -> None:
    unseen = {"verdict": "passed", "measured_time_s": 9.0, "measured_rate_flop_per_s": 4e10, "reason": "not known"}
    row = cell(machine_overview(tables(), [report(tmp_path, unseen)], []), *HPL_CELL)
    assert (row["value"], row["reason"]) == (4e10, "not known")


def test_a_reason_is_blank_for_what_was_measured_and_a_refused_ceiling_is_no_best() -> None:
    ceilings = make_ceilings()
    row = cell(machine_overview(tables(), [], []), "STREAM", "memory bandwidth", "NumPy add")
    assert row["reason"] == ""
    of_add = ceilings["backend"] == "NumPy add"
    refused = ceilings[of_add].assign(value=9e99, status="refused", reason="above the peak")
    both = pd.concat([ceilings, refused], ignore_index=True)
    assert (
        cell(machine_overview(tables(ceilings=both), [], []), "STREAM", "memory bandwidth", "NumPy add")["value"]
        == 2.1e10
    )
    alone = pd.concat([ceilings[~of_add], refused], ignore_index=True)
    row = cell(machine_overview(tables(ceilings=alone), [], []), "STREAM", "memory bandwidth", "NumPy add")
    assert math.isnan(row["value"])
    assert (row["reason"], row["method"]) == ("above the peak", "")


def test_what_was_not_measured_is_blank_with_its_reason(tmp_path: Path) -> None:
    table = machine_overview(tables(), [], [tmp_path / "lost.out"])
    for origin, quantity, what, reason in (
        ("MLPerf HPC", "time to train", "deepcam", "the target was not reached"),
        ("HPL-MxP", "rate", "HPL-MxP", NO_MXP()),
        ("Green500", "energy efficiency", "HPL", NO_POWER_OF_HPL()),
        ("TOP500", "rate", "HPL", "lost.out"),
    ):
        row = cell(table, origin, quantity, what)
        assert math.isnan(row["value"])
        assert reason in row["reason"]
    assert cell(machine_overview(tables(), [], []), "TOP500", "rate", "HPL")["reason"] == NO_HPL()


@pytest.mark.parametrize(
    ("name", "origin", "what", "rate"),
    [
        ("hplmxp/nvidia_hplmxp_8xH200_pass.out", "HPL-MxP", "HPL-MxP", 1.4432e15),
        ("hpl/HPL_pass.out", "TOP500", "HPL", 90.979e9),
        ("hpl/HPL_mixed.out", "TOP500", "HPL", 80.604e9),  # the best that passed
    ],
)
def test_outputs_of_a_site_stand_beside_its_training(name: str, origin: str, what: str, rate: float) -> None:
    row = cell(machine_overview(tables(), [], [sample(name)]), origin, "rate", what)
    assert row["value"] == pytest.approx(rate, rel=1e-3)
    assert row["source"].endswith(name.partition("/")[2])


def test_without_any_result_the_table_still_says_what_is_missing() -> None:
    empty = {name: pd.DataFrame(columns=list(columns_of(name))) for name in ("scores", "ceilings", "power")}
    table = machine_overview(empty, [], [])
    assert table["list"].to_list() == ["TOP500", "HPL-MxP", "Green500"]
    assert table["value"].isna().all()


@pytest.mark.parametrize(
    ("statistic", "words"),
    [("median of 2", "median"), ("mean of 8, extremes dropped", "mean without extremes"), ("one run", "one run")],
)
def test_the_rule_of_a_score_names_its_statistic(statistic: str, words: str) -> None:
    rows = [row | {"statistic": statistic} for row in SCORES]
    table = machine_overview(tables(scores=pd.DataFrame(rows).reindex(columns=columns_of("scores"))), [], [])
    for origin, quantity, what in (("MLPerf HPC", "time to train", "cosmo"), ("HPC AI500", "VFLOPS", "images")):
        rule = cell(table, origin, quantity, what)["rule"]
        assert rule.endswith(words)
        assert ("mean" in rule) == ("mean" in words)


def test_n_is_of_the_test_or_run_that_the_value_is_of(tmp_path: Path) -> None:
    passed = {"verdict": "passed", "measured_time_s": 9.0}
    slow, fast = ({**passed, "n": n, "measured_rate_flop_per_s": rate} for n, rate in ((1, 3e10), (5, 4e10)))
    path = report(tmp_path, slow, fast, slow)
    power = [{**make_point(), "instrument": "rapl", "mean_power_w": watts} for watts in (80.0, 90.0)]
    given = tables(power=pd.DataFrame(power).reindex(columns=columns_of("power")))
    table = machine_overview(given, [path], [])
    assert (cell(table, *HPL_CELL)["value"], cell(table, *HPL_CELL)["n"]) == (4e10, 5)
    watts = cell(table, "energy", "power of training", "rapl")
    assert (watts["value"], watts["n"]) == (90.0, 1)
