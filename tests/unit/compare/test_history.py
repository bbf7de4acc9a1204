"""Histories of made-up results: their order, the reference of each, and shifts of the level."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from unit.compare.study_folders import make_runs, write_study
from unit.record_factory import make_benchmark, make_record
from unit.refusals import refused

from hpcai.__main__ import main
from hpcai.compare.history import HISTORY_COLUMNS, history_of
from hpcai.compare.text import NO_HISTORY, RANGE, say_history
from hpcai.compare.verdict import BAD_TOLERANCE
from hpcai.core.errors import ConfigError
from hpcai.metrics.run_tables import write_table

RATE = ("train_rate_samples_per_s",)


def folders(tmp_path: Path, factors: list[float], repeats: int = 5, **plan: Any) -> list[Path]:
    return [
        write_study(tmp_path / f"study{day}", make_runs(repeats, (1,), factor=factor, day=day, **plan))
        for day, factor in enumerate(factors, 1)
    ]


def test_results_stand_in_the_order_of_time(tmp_path: Path) -> None:
    found = folders(tmp_path, [1.0, 1.0, 1.3])
    history = history_of(found[::-1])
    assert tuple(history) == HISTORY_COLUMNS
    assert set(history["measure"]) == {"time_to_train_s", "train_rate_samples_per_s"}
    rate = history[history["measure"] == RATE[0]]
    assert rate["folder"].tolist() == [str(folder) for folder in found]
    assert rate["number"].tolist() == [1, 2, 3]
    assert rate["verdict"].tolist() == ["new", "no change", "regression"]
    assert rate["previous"].tolist() == ["", *map(str, found[:2])]
    assert rate["ratio_to_previous"].tolist()[1:] == pytest.approx([1.0, 1 / 1.3])
    assert set(rate["best"]) == {str(found[0])}
    assert rate["ratio_to_best"].tolist() == pytest.approx([1.0, 1.0, 1 / 1.3])
    assert (rate["low"] < rate["value"]).all()
    write_table(history, tmp_path / "h.csv", tmp_path / "h.parquet")
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "h.parquet"), history, check_dtype=False)


def test_three_runs_of_each_result_show_a_regression(tmp_path: Path) -> None:
    history = history_of(folders(tmp_path, [1.0, 1.0, 1.3], repeats=3), RATE)
    assert history["verdict"].tolist() == ["new", "no change", "regression"]
    assert "assuming a normal distribution" in history["reason"].iloc[2]


def test_a_better_result_becomes_the_best(tmp_path: Path) -> None:
    found = folders(tmp_path, [1.0, 0.8, 1.0])
    history = history_of(found, RATE)
    assert history["best"].tolist() == [str(found[0]), str(found[1]), str(found[1])]
    assert history["verdict"].tolist() == ["new", "improvement", "regression"]


def test_a_result_without_the_point_is_skipped(tmp_path: Path) -> None:
    first, last = folders(tmp_path, [1.0, 1.0])
    between = write_study(tmp_path / "between", make_runs(5, (2,), day=1))
    history = history_of([first, between, last], RATE)
    row = history[(history["scale"] == "n1x1") & (history["folder"] == str(last))].iloc[0]
    assert row["previous"] == str(first)


def test_a_result_without_one_score_does_not_cut_its_series(tmp_path: Path) -> None:
    first, last = (
        write_study(tmp_path / f"study{day}", make_runs(5, (1,), factor=factor, day=day))
        for day, factor in ((1, 1.0), (3, 1.2))
    )
    missed = [
        make_record("not_converged", repetition=number).model_copy(
            update={"started_utc": f"2026-01-02T03:{number:02d}:00Z"}
        )
        for number in range(1, 6)
    ]
    between = write_study(tmp_path / "between", missed)
    history = history_of([first, between, last], ("time_to_train_s", *RATE)).set_index(["measure", "number"])
    time = history.loc["time_to_train_s"]
    assert list(time.index) == [1, 3]
    assert time.loc[3, "verdict"] == "regression"
    assert time.loc[3, "previous"] == str(first)
    assert time["series"].tolist() == [1, 1]
    assert history.loc[(RATE[0], 3), "previous"] == str(between)
    # A score against one earlier result is corrected for the scores that are compared with that result alone.
    alone = history_of([first, last], ("time_to_train_s",)).set_index("number")
    assert time.loc[3, "p_corrected"] == alone.loc[2, "p_corrected"]


def test_vflops_of_another_exponent_begin_a_series_and_throughput_does_not(tmp_path: Path) -> None:
    found = [
        write_study(
            tmp_path / f"study{day}",
            make_runs(5, (1,), day=day, factor=factor),
            scores={"exponent": exponent, "vflops_flop_per_s": [1e12 / factor + n * 1e9 for n in range(5)]},
        )
        for day, exponent, factor in ((1, 5.0, 1.0), (2, 10.0, 1.0), (3, 5.0, 1.3))
    ]
    history = history_of(found, ("vflops_flop_per_s", *RATE))
    parts = dict(iter(history.groupby("measure")))
    assert parts[RATE[0]]["series"].tolist() == [1, 1, 1]
    assert parts["vflops_flop_per_s"]["series"].tolist() == [1, 2, 1]
    assert parts["vflops_flop_per_s"]["verdict"].tolist() == ["new", "new", "regression"]
    assert "exponent 5 against 10" in parts["vflops_flop_per_s"]["reason"].iloc[1]


def test_another_problem_begins_a_series_and_coming_back_continues_the_old(tmp_path: Path) -> None:
    harder = make_benchmark(target={"value": 0.295, "note": "harder"})
    first = write_study(tmp_path / "a", make_runs(5, (1,), day=1))
    other = write_study(tmp_path / "b", make_runs(5, (1,), day=2, factor=0.5, benchmark=harder))
    back = write_study(tmp_path / "c", make_runs(5, (1,), day=3, factor=1.3))
    history = history_of([first, other, back], RATE)
    assert history["series"].tolist() == [1, 2, 1]
    assert history["verdict"].tolist() == ["new", "new", "regression"]
    assert "quality_target 0.3 against 0.295" in history["reason"].iloc[1]
    assert history["previous"].iloc[2] == str(first)
    assert history["best"].iloc[2] == str(first)


def test_a_lasting_shift_is_remarked_once(tmp_path: Path) -> None:
    factors = [1.0, 1.01, 0.99, 1.0, 1.02, 1.2, 1.21, 1.19, 1.2, 1.22]
    history = history_of(folders(tmp_path, factors, repeats=2), RATE)
    remarks = history.set_index("number")["remark"]
    assert list(remarks[remarks != ""].index) == [6]
    assert "level shift:" in remarks[6]


def test_few_results_and_failed_runs(tmp_path: Path) -> None:
    first = write_study(tmp_path / "a", [make_record("converged"), make_record("failed", repetition=2)])
    nothing = write_study(tmp_path / "b", [make_record("failed")])
    history = history_of([first, nothing], RATE)
    assert history["n"].tolist() == [1]
    assert history["runs"].tolist() == [2]
    assert history["low"].isna().all()
    assert history_of([nothing], RATE).empty
    assert say_history(history_of([nothing], RATE)) == NO_HISTORY()


def test_the_same_result_twice_is_refused(tmp_path: Path) -> None:
    folder = folders(tmp_path, [1.0])[0]
    with pytest.raises(ConfigError, match="more than once"):
        history_of([folder, folder])
    with pytest.raises(ConfigError, match="at least one"):
        history_of([])


def test_history_prints_and_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = folders(tmp_path, [1.0, 1.3])
    options = ["--json", tmp_path / "h.json", "--csv", tmp_path / "h.csv", "--measure", RATE[0]]
    monkeypatch.setattr("sys.argv", ["hpcai", "history", *map(str, [*found, *options])])
    assert main() == 0
    text = capsys.readouterr().out
    assert "training throughput" in text
    assert "regression" in text
    assert "nan" not in text
    assert len(json.loads((tmp_path / "h.json").read_text())["history"]) == 2
    assert (tmp_path / "h.csv").read_text().startswith("number,folder")


@pytest.mark.parametrize("tolerance", [0.0, -1.0, 1.0, 5.0, float("nan")])
def test_a_tolerance_that_is_none_is_refused_before_anything_is_read(tolerance: float) -> None:
    with refused(ConfigError, BAD_TOLERANCE):
        history_of(["nowhere"], RATE, tolerance)


@pytest.mark.parametrize(("repeats", "marked"), [(4, 2), (5, 0)])
def test_the_bounds_of_few_runs_are_called_their_range(tmp_path: Path, repeats: int, marked: int) -> None:
    said = say_history(history_of(folders(tmp_path, [1.0, 1.0], repeats), RATE))
    assert said.count(RANGE) == marked
