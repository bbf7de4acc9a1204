"""HPL: rows, verdicts, aborted runs, damage."""

import math
import re

import numpy as np
import pytest
from unit.parsers.artefacts import sample
from unit.parsers.damage import check_cuts, check_flips, check_foreign

from hpcai.core.errors import ParseError
from hpcai.parsers.findings import LEFT_OUT
from hpcai.parsers.hpl import (
    ABORTED,
    LONG_PART,
    LOST_RESIDUAL,
    NO_RESIDUAL,
    OTHER_COUNT,
    OTHER_SHARE,
    operations,
    read_hpl,
)

RULE = "-" * 80 + "\n"
TITLE = "T/V                N    NB     P     Q               Time                 Gflops\n"
START = """HPLinpack 2.3  --  High-Performance Linpack benchmark  --   December 2, 2018
N      :    9000    10000
NB     :     128
P      :       2
Q      :       4

- Computational tests pass if scaled residuals are less than                16.0
"""
ROW = "WC03L2R16       9000   128     2     4               2.00             2.4306e+02\n"
SECOND = "WR10C2L4       10000   128     2     4               2.50             2.6673e+02\n"
RESIDUAL = "||Ax-b||_oo/(eps*(||A||_oo*||x||_oo+||b||_oo)*N)=   {:.8e} ...... {}\n"
END = (
    """Finished      2 tests with the following results:
              {} tests completed and passed residual checks,
              {} tests completed and failed residual checks,
              0 tests skipped because of illegal input values.
"""
    + RULE
    + "\nEnd of Tests.\n"
)
PASSED = (
    START
    + TITLE
    + RULE
    + ROW
    + RESIDUAL.format(0.004, "PASSED")
    + TITLE
    + RULE
    + SECOND
    + RESIDUAL.format(0.003, "PASSED")
)
COLUMNS = ["variant", "order", "block", "time_s", "rate_flop_per_s"]


def best_score(table, shortest_s=0.5):
    """Return the best rate of the passed rows [FLOP/s]; NaN if none passed."""
    scores = table[(table["verdict"] == "passed") & (table["time_s"] >= shortest_s)]
    return scores["rate_flop_per_s"].max()


def read(tmp_path, text):
    path = tmp_path / "HPL.out"
    path.write_text(text)
    return read_hpl(path)


def test_a_row_and_its_parts(tmp_path):
    reading = read(tmp_path, PASSED + END.format(2, 0))
    assert reading.is_whole
    assert reading.facts == {"finished": 2, "threshold": 16.0}
    row = reading.table.iloc[0]
    assert row["mapping":"smallest_panel"].to_list() == ["column", 0, "3", "L", 2, "R", 16]
    assert row["order":"process_columns"].to_list() == [9000, 128, 2, 4]
    assert row["time_s":"verdict"].to_list() == [2.0, pytest.approx(243.06e9), 0.004, 16.0, "passed"]
    assert best_score(reading.table) == pytest.approx(266.73e9)


def test_only_passed_rows_are_scores(tmp_path):
    text = PASSED.replace("3.00000000e-03 ...... PASSED", "4.20000000e+01 ...... FAILED\n||Ax-b||_oo  . . . =  0.1")
    reading = read(tmp_path, text + END.format(1, 1))
    assert reading.is_whole
    assert reading.table["verdict"].to_list() == ["passed", "failed"]
    assert best_score(reading.table) == pytest.approx(243.06e9)
    assert math.isnan(best_score(reading.table, shortest_s=60))


def test_a_row_without_its_residual_is_no_score(tmp_path):
    reading = read(tmp_path, START + TITLE + ROW)
    assert reading.table["verdict"].to_list() == ["unchecked"]
    assert math.isnan(best_score(reading.table))
    assert reading.reasons == (
        ABORTED(),
        NO_RESIDUAL(),
    )


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("2.4306e+02", "2.5306e+02", r"2.5306e\+02 Gflops is not \(2/3 N\^3"),
        ("2.00   ", "3.00   ", "Gflops is not"),
        ("9000   128", "9000   129", "was not announced"),
        ("4.00000000e-03", "4.00000000e+03", "verdict contradicts"),
        ("4.00000000e-03 ...... PASSED", "4.00000000e-03 ...... PASSEE", "residual line is damaged"),
        ("WC03L2R16", "WX03L2R16", "no row of results"),
    ],
)
def test_rows_that_contradict_themselves_are_left_out(tmp_path, old, new, why):
    reading = read(tmp_path, PASSED.replace(old, new, 1) + END.format(2, 0))
    assert reading.table["order"].to_list() == [10000]
    assert reading.coverage_ratio == 0.5
    assert re.search(why, reading.reasons[0])


def test_a_lost_row_is_noticed_by_the_summary(tmp_path):
    reading = read(tmp_path, PASSED[: PASSED.rindex(TITLE)] + END.format(2, 0))
    assert OTHER_COUNT(tests=2, rows=1) in reading.reasons


def test_a_residual_is_not_that_of_another_row(tmp_path):
    text = PASSED.replace(SECOND, SECOND.lower()).replace(
        "3.00000000e-03 ...... PASSED", "3.00000000e+03 ...... FAILED"
    )
    reading = read(tmp_path, text + END.format(1, 1))
    assert reading.table["verdict"].to_list() == ["passed"]
    assert reading.reasons[0] == LEFT_OUT(line=15, why=LOST_RESIDUAL())


# The layout of NVIDIA's HPL in its containers of 2023 to 2025, with numbers made up for it.
NVIDIA_TEST = (
    "T/V                N    NB     P     Q         Time          Gflops (   per GPU)\n"
    + RULE
    + "WC0           299008  1024     2     4        52.88    3.370e+05 ( 4.213e+04)\n"
    + RESIDUAL.format(0.0042, "PASSED")
)
NVIDIA = (
    START.replace("9000    10000", "299008").replace("128", "1024")
    + NVIDIA_TEST
    + END.format(1, 0).replace("2 tests", "1 test")
)


def test_nvidias_short_label_and_its_rate_of_each_gpu(tmp_path):
    reading = read(tmp_path, NVIDIA)
    assert reading.is_whole
    (row,) = reading.table.to_dict("records")
    assert (row["variant"], row["mapping"], row["depth"], row["broadcast"]) == ("WC0", "column", 0, "")
    assert math.isnan(row["divisions"])
    assert [row[name] for name in ("order", "block", "process_rows", "process_columns")] == [299008, 1024, 2, 4]
    assert (row["time_s"], row["verdict"]) == (52.88, "passed")
    assert row["rate_flop_per_s"] == pytest.approx(3.37e14)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("WC0           ", "WC03L2R16     "),  # the long label with the rate of each
        (" ( 4.213e+04)", ""),  # the short label alone
        ("( 4.213e+04)", "(4.213e+04)"),
        ("( 4.213e+04)", "( 4.212e+04)"),  # 8 x 4.2125e+04 is rounded as well
    ],
)
def test_label_and_rate_of_each_come_together_or_alone(tmp_path, old, new):
    assert best_score(read(tmp_path, NVIDIA.replace(old, new)).table) == pytest.approx(3.37e14)


@pytest.mark.parametrize("share", ["4.200e+04", "3.370e+05"])
def test_a_rate_that_is_not_that_of_each_gpu_is_left_out(tmp_path, share):
    announced = START.replace("9000", "299008    9000").replace("128", "128    1024")
    text = PASSED.replace(START, announced) + NVIDIA_TEST.replace("4.213e+04", share)
    reading = read(tmp_path, text + END.format(3, 0).replace("2 tests", "3 tests"))
    assert reading.table["order"].to_list() == [9000, 10000]
    why = OTHER_SHARE(rate="3.370e+05", share=share, processes=8)
    assert reading.reasons[0] == LEFT_OUT(line=18, why=why)


TIMERS = """HPL_pdgesv() start time Tue Nov 24 21:19:09 2026

HPL_pdgesv() end time   Tue Nov 24 21:19:11 2026

--VVV--VVV--VVV--VVV--VVV--VVV--VVV--VVV--VVV--VVV--VVV--VVV--VVV--VVV--VVV-
Max aggregated wall time rfact . . . :               0.12
+ Max aggregated wall time pfact . . :               0.08
+ Max aggregated wall time mxswp . . :               0.03
Max aggregated wall time update  . . :               1.75
+ Max aggregated wall time laswp . . :               0.24
Max aggregated wall time up tr sv  . :               0.02
"""
PARTS = ["panel_time_s", "update_time_s", "exchange_time_s", "substitution_time_s"]


def test_netlibs_own_timers_are_parts_of_their_test(tmp_path):
    reading = read(tmp_path, PASSED.replace(ROW, ROW + TIMERS) + END.format(2, 0))
    assert reading.is_whole
    assert reading.table.loc[0, PARTS].to_list() == [0.12, 1.75, 0.24, 0.02]
    assert reading.table.loc[1, PARTS].isna().all()


@pytest.mark.parametrize(
    ("old", "new"),
    [("Max aggregated wall time rfact", "+ Max aggregated wall time rfact"), ("laswp", "laswq"), ("1.75", "7.75")],
    ids=["other nesting", "damaged", "longer than the whole"],
)
def test_parts_that_do_not_fit_are_not_used(tmp_path, old, new):
    reading = read(tmp_path, PASSED.replace(ROW, ROW + TIMERS.replace(old, new)) + END.format(2, 0))
    assert reading.table[PARTS].isna().all(axis=None)
    assert reading.reasons == ((LONG_PART(part_s=7.75, time_s=2.0),) if new == "7.75" else ())


def test_mixed_precision_is_no_hpl(tmp_path):
    with pytest.raises(ParseError, match="found output of HPL-MxP"):
        read(tmp_path, "HPL-MxP-NVIDIA 26.2.0\n" + PASSED)


@pytest.mark.parametrize(
    ("name", "verdicts", "best"),
    [
        ("HPL_pass.out", {"passed": 1}, 90.979e9),
        ("HPL_multi.out", {"passed": 24}, 71.244e9),
        ("HPL_fail.out", {"failed": 6}, math.nan),
        ("HPL_mixed.out", {"passed": 16, "failed": 8}, 80.604e9),
        ("HPL_nocheck.out", {"unchecked": 1}, math.nan),
        ("nvidia_hpl_2xA100_pass.out", {"passed": 1}, 2.261e13),
        ("nvidia_hpl_4xA100_6configs.out", {"passed": 6}, 3.687e13),
        ("nvidia_hpl_aborted_after_2results.out", {"passed": 2}, 3.792e12),
        ("superbench_cpu_progress_lines.log", {"passed": 1}, 8.1261e12),
        ("SYNTHETIC_rochpl_layout.out", {"passed": 1}, 2.509e13),
    ],
)
def test_published_outputs(name, verdicts, best):
    reading = read_hpl(sample(f"hpl/{name}"))
    table = reading.table
    assert table["verdict"].value_counts().to_dict() == verdicts
    assert best_score(table, shortest_s=0) == pytest.approx(best, nan_ok=True)
    assert reading.coverage_ratio == 1
    aborted = ABORTED()
    assert reading.reasons == ((aborted,) if "aborted" in name else ())
    long = table[table["time_s"] > 0.5]
    again = [operations(order) for order in long["order"]] / long["time_s"]
    assert np.allclose(again, long["rate_flop_per_s"], rtol=0.003)


def test_published_details():
    row = read_hpl(sample("hpl/HPL_pass.out")).table.iloc[0]
    assert row[["variant", "order", "block", "process_rows", "process_columns", "time_s", "residual"]].to_list() == [
        "WR11C2R4", 6000, 192, 1, 2, 1.58, 3.45869220e-03,
    ]  # fmt: skip
    multi = read_hpl(sample("hpl/HPL_multi.out")).table
    fastest = multi.loc[multi["rate_flop_per_s"].idxmax()]
    assert (fastest["order"], fastest["time_s"]) == (1000, 0.01)
    assert set(multi["order"]) == {1000, 2000, 4000}
    assert set(multi["broadcast"]) == {"0", "3"}
    assert len(multi[["process_rows", "process_columns"]].drop_duplicates()) == 2
    assert best_score(multi) < 71e9
    failed = read_hpl(sample("hpl/HPL_fail.out"))
    assert failed.table["residual"].iloc[0] == 3.98750446e-03
    mixed = read_hpl(sample("hpl/HPL_mixed.out")).table
    best = mixed.loc[mixed["rate_flop_per_s"].where(mixed["verdict"] == "passed").idxmax()]
    assert best[["order", "block", "process_rows", "process_columns"]].to_list() == [4000, 128, 2, 2]
    assert mixed[mixed["verdict"] == "failed"]["rate_flop_per_s"].max() == 39.460e9
    assert (mixed["time_s"] == 0).sum() == 1


def test_published_details_of_vendors():
    unchecked = read_hpl(sample("hpl/HPL_nocheck.out")).table.iloc[0]
    assert unchecked["rate_flop_per_s"] == pytest.approx(27.245e9)
    assert math.isnan(unchecked["residual"])
    nvidia = read_hpl(sample("hpl/nvidia_hpl_2xA100_pass.out")).table.iloc[0]
    assert nvidia["order":"process_columns"].to_list() == [100352, 224, 2, 1]
    assert nvidia[["time_s", "residual"]].to_list() == [29.80, 0.0036928]
    six = read_hpl(sample("hpl/nvidia_hpl_4xA100_6configs.out")).table.set_index("block")
    assert six.index.to_list() == [192, 224, 256, 288, 320, 352]
    assert six.loc[256, ["time_s", "rate_flop_per_s"]].to_list() == [57.66, 3.687e13]
    assert six["rate_flop_per_s"].idxmin() == 352
    assert six["rate_flop_per_s"].min() == 3.477e13
    two = read_hpl(sample("hpl/nvidia_hpl_aborted_after_2results.out")).table
    assert sorted(two["rate_flop_per_s"]) == [3.469e12, 3.792e12]
    intel = read_hpl(sample("hpl/superbench_cpu_progress_lines.log")).table.iloc[0]
    assert intel[["variant", "broadcast", "smallest_panel"]].to_list() == ["WR0XR8C48", "X", 48]
    assert intel[["order", "time_s", "residual"]].to_list() == [384000, 4645.37, 4.12139792e-03]


def test_published_run_without_result_is_no_score():
    with pytest.raises(ParseError, match=r"without one whole record \(aborted"):
        read_hpl(sample("hpl/nvidia_hpl_interrupted_no_result.out"))


def test_damage(tmp_path):
    check_foreign(tmp_path, read_hpl)
    check_cuts(tmp_path / "x", (PASSED + END.format(2, 0)).encode(), read_hpl, COLUMNS)
    data = sample("hpl/HPL_mixed.out").read_bytes()
    check_cuts(tmp_path / "x", data, read_hpl, COLUMNS)
    # Low digits of time, rate and residual and the variant have no redundancy.
    columns = ["order", "block", "process_rows", "process_columns"]
    check_flips(tmp_path / "x", data, read_hpl, columns)
    check_flips(tmp_path / "x", (PASSED + END.format(2, 0)).encode(), read_hpl, columns)
    check_cuts(tmp_path / "x", NVIDIA.encode(), read_hpl, COLUMNS)
    check_flips(tmp_path / "x", NVIDIA.encode(), read_hpl, columns)
