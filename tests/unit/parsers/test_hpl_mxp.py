"""HPL-MxP: the reported rate and its consistency checks."""

import pytest
from unit.parsers.artefacts import sample
from unit.parsers.damage import check_cuts, check_flips, check_foreign

from hpcai.core.errors import ParseError
from hpcai.parsers.hpl_mxp import read_hpl_mxp

TEXT = """HPL-MxP-NVIDIA 25.1.0  -- NVIDIA accelerated HPL-MxP benchmark -- NVIDIA
 ****** test 1 of 1 starts ******
   n      = 100000
   nb     = 1024
   nprow  = 1
   npcol  = 2
 ****** test loop 1 of 1 starts ******
 Prog=  50.00% N_left=  1000 Time=  1.00 TF=  9.0 TF_per=  4.5
LU seconds: AVG = 4.00, MAX = 4.00 (1->a), MIN = 4.00 (0->a)
Iterative Solver seconds: AVG = 6.00, MAX = 6.00 (1->a), MIN = 6.00 (0->a)
    Threshold     . . . . . .          =    1.600000E+01
  ||Ax-b||_oo / (EPS * (||A||_oo * ||x||_oo + ||b||_oo) * N) =    3.000000E-04 ...... PASSED

    N = 100000, NB = 1024, NPROW = 1, NPCOL = 2, SLOPPY-TYPE = FP8
\x1b[0;31m       GFLOPS = 6.6668e+04, per GPU =   33334.08\x1b[0m ------ The performance to report
    LU GFLOPS = 1.6667e+05, per GPU =   83335.21 ------ without the iterative solver
 ****** test 1 of 1 done   ******
"""
COLUMNS = ["order", "rate_flop_per_s", "verdict"]


def read(tmp_path, text):
    path = tmp_path / "mxp.out"
    path.write_text(text)
    return read_hpl_mxp(path)


def test_the_rate_includes_the_refinement(tmp_path):
    reading = read(tmp_path, TEXT)
    assert reading.is_whole
    row = reading.table.iloc[0]
    assert row["order":"time_s"].to_list() == [100000, 1024, 1, 2, "FP8", 10.0]
    assert row[["rate_flop_per_s", "factorisation_rate_flop_per_s"]].to_list() == pytest.approx([6.6668e13, 1.6667e14])
    assert row["residual":"verdict"].to_list() == [3e-4, 16.0, "passed"]


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("6.6668e+04", "7.6668e+04", "rate is not"),
        ("33334.08", "43334.08", "rate is not that per GPU x 2"),
        ("AVG = 4.00", "AVG = 5.00", "rate is not"),
        ("3.000000E-04", "3.000000E+04", "its verdict contradicts"),
        ("NPCOL = 2", "NPCOL = 3", "NPROW or NPCOL was not announced"),
        ("LU GFLOPS", "LV GFLOPS", "a result without factorisation rate"),
    ],
)
def test_results_that_contradict_themselves_are_refused(tmp_path, old, new, why):
    with pytest.raises(ParseError, match=why):
        read(tmp_path, TEXT.replace(old, new))


def test_a_failed_residual_is_no_pass(tmp_path):
    text = TEXT.replace("3.000000E-04 ...... PASSED", "3.000000E+04 ...... FAILED")
    assert read(tmp_path, text).table["verdict"].to_list() == ["failed"]


def test_published_output():
    reading = read_hpl_mxp(sample("hplmxp/nvidia_hplmxp_8xH200_pass.out"))
    row = reading.table.iloc[0]
    assert reading.is_whole
    assert len(reading.table) == 1
    assert row["order":"precision"].to_list() == [370000, 1024, 2, 4, "FP16"]
    assert row["rate_flop_per_s"] == pytest.approx(1.4432e15)
    assert row["rate_per_process_flop_per_s"] == pytest.approx(180397.87e9)
    assert row["factorisation_rate_flop_per_s"] == pytest.approx(3.0087e15)
    assert row["factorisation_time_s":"refinement_time_s"].to_list() == [11.22, 12.18]
    assert (2 / 3 * 370000**3 + 1.5 * 370000**2) / row["time_s"] == pytest.approx(1.4431e15, rel=1e-4)
    assert row["verdict"] == "passed"


def test_damage(tmp_path):
    check_foreign(tmp_path, read_hpl_mxp)
    check_cuts(tmp_path / "x", TEXT.encode(), read_hpl_mxp, COLUMNS)
    # The low digits of times, rates and residual have no redundancy.
    check_flips(
        tmp_path / "x",
        TEXT.encode(),
        read_hpl_mxp,
        ["order", "block", "process_rows", "process_columns", "verdict"],
        count=200,
    )
    data = sample("hplmxp/nvidia_hplmxp_8xH200_pass.out").read_bytes()
    check_cuts(tmp_path / "x", data, read_hpl_mxp, COLUMNS)
