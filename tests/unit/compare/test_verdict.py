"""Verdicts and the command line: which changes are regressions, and the exit status of the programs."""

import json
import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from unit.compare.study_folders import make_runs, move, write_study
from unit.record_factory import make_benchmark, make_record

from hpcai.__main__ import main
from hpcai.compare import points, text, verdict
from hpcai.compare.comparison import compare_folders
from hpcai.compare.output import comparison_as_dict, write_comparison
from hpcai.compare.text import say_comparison, say_regression
from hpcai.compare.verdict import Regression, regress_folders
from hpcai.core.errors import ConfigError
from hpcai.metrics.statistics.significance import ONE_RUN
from hpcai.records.run import RunRecord

ENDINGS = ("no regression", "bad input", "regression", "inconclusive")
"""Outcomes of `hpcai regress` by exit status."""
RATE = ("train_rate_samples_per_s",)


def judge(tmp_path: Path, base: list[RunRecord], new: list[RunRecord], **options: Any) -> Regression:
    return regress_folders(write_study(tmp_path / "base", base), write_study(tmp_path / "new", new), **options)


def run(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr("sys.argv", ["hpcai", *map(str, arguments)])
    return main()


def reason_of(regression: Regression) -> str:
    return " ".join(regression.points["reason"])


def test_identical_results_have_not_changed(tmp_path: Path) -> None:
    regression = judge(tmp_path, make_runs(), make_runs())
    assert regression.verdict == "no change"
    assert regression.exit_code(require_conclusive=True) == 0


def test_a_fifth_slower_is_a_regression_and_back_an_improvement(tmp_path: Path) -> None:
    regression = judge(tmp_path, make_runs(), make_runs(factor=1.2))
    assert regression.verdict == "regression"
    assert regression.exit_code() == 2
    assert "train_rate_samples_per_s −16.7 %" in reason_of(regression)
    back = regress_folders(tmp_path / "new", tmp_path / "base", measures=RATE)
    assert back.verdict == "improvement"
    assert back.exit_code(require_conclusive=True) == 0


def test_a_change_within_the_tolerance_is_none(tmp_path: Path) -> None:
    regression = judge(tmp_path, make_runs(12), make_runs(12, factor=1.01), tolerance_ratio=0.1, measures=RATE)
    assert regression.verdict == "no change"
    assert "within 10 %" in reason_of(regression)


def test_a_significant_change_below_the_tolerance_is_no_regression(tmp_path: Path) -> None:
    base, new = make_runs(), make_runs(factor=1.2)
    assert judge(tmp_path, base, new, tolerance_ratio=0.4, measures=RATE).verdict == "no change"


def test_too_few_runs_are_inconclusive_and_say_how_many_are_needed(tmp_path: Path) -> None:
    regression = judge(tmp_path, make_runs(2), make_runs(2, factor=1.2), measures=RATE)
    assert regression.verdict == "inconclusive"
    assert (regression.exit_code(), regression.exit_code(require_conclusive=True)) == (0, 3)
    needed = verdict.RUNS_NEEDED.find_in(reason_of(regression))
    assert (needed["tolerance"], needed["base"], needed["new"]) == ("5 %", "2", "2")
    one = judge(tmp_path / "one", make_runs(1), make_runs(1, factor=1.5), measures=RATE)
    assert one.verdict == "inconclusive"
    assert ONE_RUN(where="beyond") in reason_of(one)


def test_three_runs_show_a_clear_regression(tmp_path: Path) -> None:
    regression = judge(tmp_path, make_runs(3), make_runs(3, factor=1.2), measures=RATE)
    assert regression.exit_code() == 2
    assert "−16.7 %" in reason_of(regression)
    assert verdict.FEW_RUNS() in reason_of(regression)
    back = regress_folders(tmp_path / "new", tmp_path / "base", measures=RATE)
    assert back.verdict == "improvement"
    tenfold = judge(tmp_path / "tenfold", make_runs(3), make_runs(3, factor=10.0))
    assert tenfold.exit_code() == 2
    one = judge(tmp_path / "one", make_runs(1), make_runs(3, factor=10.0))
    assert (one.verdict, one.exit_code(require_conclusive=True)) == ("inconclusive", 3)


def test_the_runs_that_are_needed_grow_with_the_scores_that_are_judged(tmp_path: Path) -> None:
    one = judge(tmp_path, make_runs(2, (1,)), make_runs(2, (1,), factor=1.03), measures=RATE)
    more = judge(tmp_path / "more", make_runs(2, (1, 2, 4)), make_runs(2, (1, 2, 4), factor=1.03), measures=RATE)
    needed = [
        int(verdict.RUNS_NEEDED.find_in(found.scores.loc[found.scores["scale"] == "n1x1", "reason"].iloc[0])["needed"])
        for found in (one, more)
    ]
    assert needed[0] < needed[1]


@pytest.mark.parametrize(("factor", "expected"), [(1.0, "no change"), (1.01, "inconclusive"), (1.2, "inconclusive")])
@pytest.mark.parametrize("runs", [2, 3])
def test_equal_runs_tell_nothing_of_their_scatter(tmp_path: Path, runs: int, factor: float, expected: str) -> None:
    folders = [
        write_study(tmp_path / name, make_runs(runs, (1,)), scores={"rate_flop_per_s": value, "flop_method": "c"})
        for name, value in (("base", 1e11), ("new", 1e11 / factor))
    ]
    regression = regress_folders(*folders, measures=("rate_flop_per_s",))
    assert regression.verdict == expected
    assert factor == 1 or verdict.NO_INTERVAL.find_in(reason_of(regression))


def test_equal_runs_that_are_enough_tell(tmp_path: Path) -> None:
    folders = [
        write_study(tmp_path / str(value), make_runs(5, (1,)), scores={"rate_flop_per_s": value, "flop_method": "c"})
        for value in (1.00e11, 0.99e11, 0.8e11)
    ]
    near, far = (regress_folders(folders[0], folder, measures=("rate_flop_per_s",)) for folder in folders[1:])
    assert (near.verdict, far.verdict) == ("no change", "regression")


def test_lost_points_never_pass_silently(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    base = write_study(tmp_path / "base", make_runs(3, (1, 2)))
    part = write_study(tmp_path / "part", make_runs(3, (1,)))
    regression = regress_folders(base, part)
    assert regression.points["lost"].tolist() == [False, True]
    assert (regression.lost_points, regression.exit_code(), regression.exit_code(allow_lost=True)) == (1, 3, 0)
    assert regression.exit_code(require_conclusive=True, allow_lost=True) == 3
    assert run(monkeypatch, "regress", base, part, "--json", tmp_path / "v.json") == 3
    assert capsys.readouterr().out.splitlines()[-1] == text.VERDICT_LOST(
        verdict="inconclusive", counts="1 inconclusive, 1 no change", tolerance="5 %", lost="1 lost point"
    )
    assert json.loads((tmp_path / "v.json").read_text())["lost_points"] == 1
    assert run(monkeypatch, "regress", base, part, "--allow-lost") == 0
    assert run(monkeypatch, "regress", part, base) == 0
    slow = write_study(tmp_path / "slow", make_runs(3, (1,), factor=10.0))
    assert run(monkeypatch, "regress", base, slow, "--allow-lost") == 2


def test_a_point_that_never_trained_cannot_be_lost(tmp_path: Path) -> None:
    broken = make_record("failed", ranks_per_node=2)
    regression = judge(tmp_path, [*make_runs(2, (1,)), broken], make_runs(2, (1,)))
    assert (regression.lost_points, regression.exit_code()) == (0, 0)


def test_lost_points_and_other_problems_are_inconclusive(tmp_path: Path) -> None:
    lost = judge(tmp_path, make_runs(2, (1, 2)), make_runs(2, (1,)))
    assert dict(zip(lost.points["scale"], lost.points["verdict"], strict=True)) == {
        "n1x1": "no change",
        "n1x2": "inconclusive",
    }
    assert verdict.LOST_POINT(reason=points.NOT_IN_NEW()) in reason_of(lost)
    harder = make_benchmark(target={"value": 0.295, "note": "harder"})
    other = judge(tmp_path / "other", make_runs(2, (1,)), make_runs(2, (1,), benchmark=harder))
    assert other.verdict == "inconclusive"
    assert "quality_target 0.3 against 0.295" in reason_of(other)


def test_a_new_point_decides_nothing(tmp_path: Path) -> None:
    regression = judge(tmp_path, make_runs(2, (1,)), make_runs(2, (1, 2)))
    assert regression.verdict == "no change"
    assert regression.points["verdict"].tolist() == ["no change", "new"]
    assert judge(tmp_path / "all", make_runs(2, (1,)), make_runs(2, (2,))).verdict == "inconclusive"


def test_lost_convergence_is_a_regression_when_fisher_says_so(tmp_path: Path) -> None:
    missed = [make_record("not_converged", repetition=number) for number in range(1, 6)]
    regression = judge(tmp_path, make_runs(5, (1,)), missed, measures=RATE)
    assert regression.verdict == "regression"
    assert verdict.LESS_CONVERGENCE(before="5 of 5 runs", after="0 of 5", p=0.004) in reason_of(regression)
    few = judge(tmp_path / "few", make_runs(2, (1,)), missed[:2], measures=RATE)
    assert few.verdict == "inconclusive"
    assert verdict.LESS_CONVERGENCE.find_in(reason_of(few))["p"] == "0.17"


def test_a_point_whose_runs_all_break_down_is_a_regression(tmp_path: Path) -> None:
    regression = judge(tmp_path, make_runs(1, (1,)), [make_record("failed")])
    assert regression.exit_code() == 2
    assert verdict.NONE_FINISHED(before="1 of 1 runs", after="0 of 1") in reason_of(regression)
    assert judge(tmp_path / "both", [make_record("failed")], [make_record("failed")]).verdict == "inconclusive"


def test_another_validity_is_named(tmp_path: Path) -> None:
    base = [record.model_copy(update={"verdicts": ()}) for record in make_runs(2, (1,))]
    folders = [write_study(tmp_path / "base", base), write_study(tmp_path / "new", make_runs(2, (1,)))]
    for folder in folders:
        (folder / "tables" / "scales.parquet").unlink()
    regression = regress_folders(*folders)
    assert regression.verdict == "no change"
    assert regression.points["remark"].tolist() == [verdict.OTHER_VALIDITY(before="not judged", after="none")]
    assert "also: valid at" in say_regression(regression)


@pytest.mark.parametrize("tolerance", [0.0, -0.1, 1.0, float("nan")])
def test_a_tolerance_that_is_none_is_refused(tmp_path: Path, tolerance: float) -> None:
    with pytest.raises(ConfigError, match="--tolerance"):
        judge(tmp_path, [], [], tolerance_ratio=tolerance)


def test_regress_ends_with_its_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    base = write_study(tmp_path / "base", make_runs())
    slow = write_study(tmp_path / "slow", make_runs(factor=1.2))
    few = write_study(tmp_path / "few", make_runs(1, factor=1.2))
    file = tmp_path / "verdict.json"
    assert run(monkeypatch, "regress", base, base) == 0
    assert text.SAME_RUNS() in capsys.readouterr().out
    assert run(monkeypatch, "regress", base, slow, "--json", file) == 2
    assert capsys.readouterr().out.splitlines()[-1] == text.VERDICT(
        verdict="regression", counts="2 regression", tolerance="5 %"
    )
    assert run(monkeypatch, "regress", base, few) == 0
    assert run(monkeypatch, "regress", base, few, "--require-conclusive") == 3
    assert run(monkeypatch, "regress", base, tmp_path) == 1
    assert run(monkeypatch, "regress", base, slow, "--measure", "speed") == 1
    assert run(monkeypatch, "regress", base, slow, "--measure", "init_s") == 0
    found = json.loads(file.read_text())
    assert found["verdict"] == "regression"
    assert {row["verdict"] for row in found["points"]} == {"regression"}
    assert found["comparison"]["base"]["runs"] == 10


def test_no_folder_is_made_for_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    base = write_study(tmp_path / "base", make_runs(1, (1,)))
    assert run(monkeypatch, "regress", base, base, "--json", tmp_path / "out" / "verdict.json") == 1
    assert f"the folder {tmp_path / 'out'} does not exist" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_verdict_counts_what_else_differs(tmp_path: Path) -> None:
    moved = move(make_runs(2, (1,)), commit="f" * 40, data_digest="00" * 32)
    regression = judge(tmp_path, make_runs(2, (1,)), moved)
    assert text.OTHER_RECORD(count="2 differences", categories="data 1, code 1") in say_regression(regression)
    same = regress_folders(tmp_path / "base", tmp_path / "base")
    assert text.SAME_RECORD() in say_regression(same)


def test_files_hold_whole_counts(tmp_path: Path) -> None:
    base, new = (write_study(tmp_path / name, make_runs(2, ranks)) for name, ranks in (("a", (1, 2)), ("b", (1,))))
    comparison = compare_folders(base, new)
    write_comparison(comparison, tmp_path / "c.csv")
    rows = pd.read_csv(tmp_path / "c.csv", dtype=str)
    assert set(rows["n_base"].dropna()) == {"2"}
    assert set(rows["ranks"]) == {"1", "2"}
    written = comparison_as_dict(comparison)["scores"]
    assert {type(row["n_new"]) for row in written} == {int, type(None)}


def test_json_of_runs_too_few_to_detect_any_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = write_study(tmp_path / "base", make_runs(2, (1,)))
    new = write_study(tmp_path / "new", [*make_runs(1, (1,), factor=1.5), make_runs(2, (1,), factor=0.7)[1]])
    scores = compare_folders(base, new).scores.set_index("measure")["detectable_ratio"]
    infinite = list(scores[scores == math.inf].index)
    assert "time_to_train_s" in infinite
    assert run(monkeypatch, "compare", base, new, "--json", tmp_path / "found.json") == 0
    found = json.loads((tmp_path / "found.json").read_text(), parse_constant=pytest.fail)
    written = {row["measure"]: row["detectable_ratio"] for row in found["scores"]}
    assert {written[measure] for measure in infinite} == {None}


def test_a_wrong_command_line_is_no_regression(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch, "regress", "only-one") == 1


def test_help_tells_the_exit_codes(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "regress", "--help") == 0
    shown = " ".join(capsys.readouterr().out.split())
    codes = {number: shown.index(f"{number} {words}") for number, words in enumerate(ENDINGS) if words}
    assert sorted(codes.values()) == list(codes.values())
    assert {"--require-conclusive", "--allow-lost"} <= set(shown.replace(",", " ").split())


def test_compare_prints_and_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    base = write_study(tmp_path / "base", make_runs())
    new = write_study(tmp_path / "new", [*make_runs(factor=1.2), *make_runs(1, (4,))], name="renamed")
    arguments = ("compare", base, new, "--json", tmp_path / "c.json", "--csv", tmp_path / "c.csv")
    assert run(monkeypatch, *arguments) == 0
    shown = capsys.readouterr().out
    for words in (
        "study.name",
        "renamed",
        "worse",
        "−16.7 %",
        "not compared: cosmoflow_tiny/fp32/n1x4: not in the base",
    ):
        assert words in shown
    assert "nan" not in shown
    written = json.loads((tmp_path / "c.json").read_text())
    assert [row["key"] for row in written["changes"]] == ["study.name"]
    assert (tmp_path / "c.csv").read_text().startswith("status,finding")
    assert "study.name" in (tmp_path / "c_changes.csv").read_text()


def test_long_comparisons_are_cut_unless_all_is_asked_for(tmp_path: Path) -> None:
    runs = [record for name in ("a", "b", "c", "d", "e") for record in make_runs(2, benchmark=name)]
    folder = write_study(tmp_path / "base", runs)
    comparison = compare_folders(folder, folder)
    short, long = say_comparison(comparison), say_comparison(comparison, everything=True)
    assert text.MORE_ROWS.find_in(short)
    assert len(long.splitlines()) > len(short.splitlines()) > 40


def test_runs_too_few_for_any_change_are_said_to_be(tmp_path: Path) -> None:
    few, more = (
        say_comparison(
            compare_folders(
                write_study(tmp_path / f"a{runs}", make_runs(runs)),
                write_study(tmp_path / f"b{runs}", make_runs(runs, factor=1.01)),
            )
        )
        for runs in (2, 5)
    )
    assert text.TOO_FEW_RUNS(limit="×10") in few
    assert "80 % probability" in more
    assert "unknown" not in few + more


def test_long_cells_of_changes_are_cut_and_lines_fit(tmp_path: Path) -> None:
    base = write_study(tmp_path / "base", make_runs(), name="x" * 60)
    new = write_study(tmp_path / "new", make_runs(factor=1.2), name="y" * 60)
    lines = say_comparison(compare_folders(base, new), everything=True).splitlines()
    assert "…" in "".join(lines)
    # Paths and reasons may exceed the width.
    first = next(number for number, line in enumerate(lines) if line.startswith("Besides the scores"))
    assert max(map(len, lines[first:])) <= 100
