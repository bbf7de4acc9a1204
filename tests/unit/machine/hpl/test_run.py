"""Starts of HPL: the input file, the output of a stand-in launcher, and the verdict on a run."""

import os
import shutil
from pathlib import Path

import pytest
from pydantic import ValidationError

from hpcai.config.prediction import HplTest
from hpcai.core.errors import LaunchError
from hpcai.machine.hpl import run as hpl_run
from hpcai.machine.hpl.input import count_solutions, write_input
from hpcai.machine.hpl.library import NO_HPCC, BlasLibrary, find_blas, read_ldd
from hpcai.machine.hpl.pingpong import measure_message_rate
from hpcai.machine.hpl.report import OFF_CORE, HplReport, HplRun, judge_run
from hpcai.machine.hpl.run import CoreUse, Program, _Look, _Section, build_command, judge, watch_run

HPL_PART = """\
This is the DARPA/DOE HPC Challenge Benchmark version 1.5.0 October 2012
HPLinpack 2.0  --  High-Performance Linpack benchmark  --   September 10, 2008
N      :    2000
NB     :      64
P      :       1
Q      :       1
- Computational tests pass if scaled residuals are less than                16.0
Begin of HPL section.
T/V                N    NB     P     Q               Time                 Gflops
--------------------------------------------------------------------------------
WR00R2R4        2000    64     1     1               {time}              {rate}
--------------------------------------------------------------------------------
||Ax-b||_oo/(eps*(||A||_oo*||x||_oo+||b||_oo)*N)=        0.0067546 ...... {verdict}
Finished      1 tests with the following results:
              {passed} tests completed and passed residual checks,
              {failed} tests completed and failed residual checks,
              0 tests skipped because of illegal input values.
End of Tests.
End of HPL section.
HPL_time=1.3389
"""
GOOD = {"time": "1.34", "rate": "3.988e+00", "verdict": "PASSED", "passed": 1, "failed": 0}
TEST = HplTest(order=2000, block=64)


def use(cpu_ratio: float = 0.999, steal_ratio: float = 0.0) -> CoreUse:
    return CoreUse(1.5, cpu_ratio, steal_ratio)


def write_launcher(folder: Path, text: str) -> Path:
    """Return a stand-in for mpirun that writes an output instead of running hpcc."""
    launcher = folder / "mpirun"
    launcher.write_text(f"#!/bin/sh\n[ \"$1\" = --version ] && echo 'mpirun (Open MPI) 4' && exit\n{text}\n")
    launcher.chmod(0o755)
    return launcher


def run_with(
    monkeypatch: pytest.MonkeyPatch, folder: Path, launcher: str, watched: CoreUse, repeats: int = 1, **asked: int
) -> HplReport:
    path = write_launcher(folder, launcher)
    monkeypatch.setattr(hpl_run, "find_blas", lambda: BlasLibrary("/lib/libblas.so.3.11.0", "libblas.so.3.11.0"))
    monkeypatch.setattr(hpl_run, "find_launcher", lambda: str(path))

    def watch(command: list[str], *rest: object) -> CoreUse:
        watch_run(command, *rest)  # type: ignore[arg-type]
        return watched

    monkeypatch.setattr(hpl_run, "watch_run", watch)
    report = hpl_run.run_hpl([{"order": 2000, "block": 64, **asked}], folder / "raw", repeats=repeats)
    return HplReport.model_validate_json(report)


def test_input_names_the_test_and_keeps_the_places_of_its_lines() -> None:
    lines = write_input(HplTest(order=4000, block=128, process_rows=2, process_columns=3)).splitlines()
    assert len(lines) == 36
    assert [lines[number - 1] for number in (6, 8, 11, 12)] == ["4000", "128", "2", "3"]
    several = write_input(HplTest(order=4000, block=128), 3).splitlines()
    assert (several[4].split()[0], several[5]) == ("3", "4000 4000 4000")
    assert lines[12].split()[0] == "16.0"
    assert [lines[number - 1].split()[0] for number in (25, 28, 29)] == ["0", "1", "1"]  # look-ahead, L1, U


def test_smaller_systems_are_solved_more_often() -> None:
    large, small, tiny = HplTest(order=6000, block=192), HplTest(order=4000, block=128), HplTest(order=500, block=64)
    shared = HplTest(order=6000, block=192, process_columns=2)
    assert count_solutions([small, large, shared, tiny], 5) == {small: 17, large: 5, shared: 10, tiny: 20}
    assert count_solutions([small], 3) == {small: 3}
    assert count_solutions([], 3) == {}


@pytest.mark.parametrize(
    "bad", [{"order": 100, "block": 101}, {"order": 0, "block": 1}, {"order": 10, "block": 2, "x": 1}]
)
def test_impossible_tests_are_rejected(bad: dict[str, int]) -> None:
    with pytest.raises(ValidationError):
        HplTest.model_validate(bad)


def test_a_run_is_read_judged_and_its_output_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    text = f"cat > hpccoutf.txt <<'END'\n{HPL_PART.format(**GOOD)}END"
    report = run_with(monkeypatch, tmp_path, text, use())
    (run,) = report.runs
    assert run.accepted
    assert run.measured_time_s == pytest.approx(1.3389, rel=2e-4)  # the digits of the rate
    assert run.measured_rate_flop_per_s == pytest.approx(3.988e9)
    assert (run.n, run.spread_ratio) == (1, None)
    assert (run.residual, run.threshold, run.verdict) == (0.0067546, 16.0, "passed")
    assert (tmp_path / "raw" / run.raw).read_text() == HPL_PART.format(**GOOD)
    assert report.versions == {"launcher": "mpirun (Open MPI) 4", "suite": "1.5.0", "hpl": "2.0"}
    assert run.command.endswith("--bind-to none -np 1 hpcc")
    frame = report.frame("hpl_run.json")
    assert frame["method"].tolist() == ["measured"]
    assert frame["source"].tolist() == ["hpl_run.json"]


def test_rates_are_taken_in_turn_with_the_starts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    launcher = write_launcher(tmp_path, f"echo start >> {tmp_path}/turns; exit 1")
    monkeypatch.setattr(hpl_run, "ATTEMPTS", 2)
    monkeypatch.setattr(hpl_run, "find_blas", lambda: BlasLibrary("/lib/a", "a"))
    monkeypatch.setattr(hpl_run, "find_launcher", lambda: str(launcher))

    def take(test: HplTest) -> None:
        with (tmp_path / "turns").open("a") as turns:
            turns.write(f"{test.order}\n")

    asked = [{"order": 2000, "block": 64}, {"order": 3000, "block": 64}]
    hpl_run.run_hpl(asked, tmp_path / "raw", take_rates=take)
    turns = (tmp_path / "turns").read_text().split()
    assert turns == ["2000", "start", "start", "2000", "3000", "start", "start", "3000"]


def test_the_median_of_several_solutions_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    head, row, rest = HPL_PART.partition("T/V   ")
    one, end, tail = rest.partition("Finished")
    found = [("1.34", "3.988e+00"), ("1.40", "3.814e+00"), ("1.36", "3.926e+00")]
    rows = [row + one.format(**{**GOOD, "time": time_s, "rate": rate}) for time_s, rate in found]
    text = head + "".join(rows) + end + tail.replace("1 tests with", "3 tests with").format(**{**GOOD, "passed": 3})

    def first(text: str, repeats: int) -> HplRun:
        launcher = f"cat > hpccoutf.txt <<'END'\n{text}END"
        return run_with(monkeypatch, tmp_path, launcher, use(), repeats).runs[0]

    run, failed, lost = (
        first(text, 3),
        first(text.replace("0.0067546 ...... PASSED", "99.5 ...... FAILED", 1), 3),
        first(text, 2),
    )
    assert (run.accepted, run.reason, run.n) == (True, "", 3)
    assert run.measured_rate_flop_per_s == pytest.approx(3.926e9)
    assert run.spread_ratio == pytest.approx(3.926 / 3.814 - 3.926 / 3.988)
    assert (failed.accepted, failed.verdict) == (False, "failed")
    assert (lost.accepted, lost.measured_time_s) == (False, None)


def test_a_disturbed_run_is_tried_again_and_every_start_stays(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    text = f"cat > hpccoutf.txt <<'END'\n{HPL_PART.format(**GOOD)}END"
    report = run_with(monkeypatch, tmp_path, text, use(cpu_ratio=0.96))
    assert [run.attempt for run in report.runs] == [1, 2, 3]
    assert not any(run.accepted for run in report.runs)
    assert OFF_CORE.find_in(report.runs[0].reason)["percent"] == "96.0"
    assert len({run.raw for run in report.runs}) == 3


@pytest.mark.parametrize(
    ("launcher", "words"),
    [
        ("echo no memory; exit 3", "ended with 3: no memory"),
        ("true", "left no hpccoutf.txt"),
        ("echo damaged > hpccoutf.txt", "not measured: "),
    ],
)
def test_a_failed_start_has_a_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, launcher: str, words: str
) -> None:
    report = run_with(monkeypatch, tmp_path, launcher, use())
    assert report.runs
    assert all(words in run.reason and run.measured_time_s is None and not run.accepted for run in report.runs)


def test_more_processes_than_cores_are_not_started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (run,) = run_with(monkeypatch, tmp_path, "exit 1", use(), process_rows=1000).runs
    assert "1000 processes" in run.reason
    assert run.measured_time_s is None


def test_ranks_get_what_the_library_needs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    launcher = write_launcher(tmp_path, 'echo "$OPENBLAS_CORETYPE $OPENBLAS_NUM_THREADS" > hpccoutf.txt')
    blas = BlasLibrary("/lib/libblas.so.3", "libblas.so.3", environment={"OPENBLAS_CORETYPE": "SkylakeX"})
    monkeypatch.setattr(hpl_run, "find_blas", lambda: blas)
    monkeypatch.setattr(hpl_run, "find_launcher", lambda: str(launcher))
    hpl_run.run_hpl([{"order": 2000, "block": 64}], tmp_path / "raw")
    assert (tmp_path / "raw/hpccoutf-2000-64-1x1-1.txt").read_text() == "SkylakeX 1\n"


def test_missing_programs_are_a_reason_not_a_crash(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    report = HplReport.model_validate_json(hpl_run.run_hpl([{"order": 2000, "block": 64}], tmp_path / "raw"))
    assert report.reason == NO_HPCC(package="Debian package hpcc")
    assert report.frame("x")["reason"].tolist() == [report.reason]
    assert report.frame("x")["measured_time_s"].isna().all()
    monkeypatch.setattr(hpl_run, "find_blas", lambda: BlasLibrary("/lib/a", "a"))
    report = HplReport.model_validate_json(hpl_run.run_hpl([{"order": 2000, "block": 64}], tmp_path / "raw"))
    assert "mpirun is not installed" in report.reason


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"verdict": "failed"}, "the residual check reports failed"),
        ({"measured_time_s": 0.4}, "shorter than 0.5 s"),
        ({"cpu_ratio": 0.9}, "90.0 % of the wall time"),
        ({"cpu_ratio": None}, "is not known"),
        ({"steal_ratio": 0.2}, "hypervisor took 20.0 %"),
    ],
)
def test_what_speaks_against_a_run_is_said(changes: dict[str, object], words: str) -> None:
    good = HplRun(
        order=1, block=1, process_rows=1, process_columns=1, measured_time_s=1.0, verdict="passed", cpu_ratio=0.99
    )
    assert judge_run(good).accepted
    run = judge_run(good.model_copy(update=changes))
    assert not run.accepted
    assert words in run.reason


def test_the_rank_that_got_least_decides() -> None:
    first, last = _Look(10.0, {7: 1.0, 8: 1.0}, 5.0), _Look(12.0, {7: 3.0, 8: 2.5}, 5.0 + 0.2 * (os.cpu_count() or 1))
    found = judge([first, last])
    assert found.wall_s == 2.0
    assert found.cpu_ratio == pytest.approx(0.75)
    assert found.steal_ratio == pytest.approx(0.1)
    assert judge([first]).cpu_ratio != judge([first]).cpu_ratio  # unknown from a single sample


def test_a_rank_that_has_ended_leaves_the_look_before_it_as_the_last(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A site's own HPL does not say when it ends, and its launcher ends after it."""
    on_core_s = iter([1.0, 3.0, None])
    monkeypatch.setattr(hpl_run, "_find_ranks", lambda *_: [7])
    monkeypatch.setattr(hpl_run, "_read_on_core", lambda _: next(on_core_s))
    section = _Section(Program.of_site(["xhpl"]), tmp_path / "HPL.out")
    for _ in range(3):
        section.follow(launcher=1)
    assert [look.on_core_s for look in section.looks] == [{7: 1.0}, {7: 3.0}]


def test_a_start_that_does_not_end_is_ended(tmp_path: Path) -> None:
    launcher = write_launcher(tmp_path, "exec sleep 60")
    with pytest.raises(LaunchError, match=r"ended after 0\.1 s"):
        watch_run([str(launcher)], tmp_path, dict(os.environ), 0.1)


def test_blas_is_what_the_linker_finds(tmp_path: Path) -> None:
    library = tmp_path / "libblas.so.3.11.0"
    library.touch()
    link = tmp_path / "libblas.so.3"
    link.symlink_to(library)
    listed = "\tlibm.so.6 => /lib/libm.so.6 (0x00007f)\n\tlibblas.so.3 => "
    assert read_ldd(f"{listed}{link} (0x00007f8c7fd23000)\n") == str(library)
    assert read_ldd(f"{listed}not found\n") == ""


def test_without_hpcc_there_is_a_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_blas().reason == NO_HPCC(package="Debian package hpcc")


def site(folder: Path, text: str) -> list[str]:
    """Return the command of a stand-in for a site's HPL, which is its own launcher."""
    program = write_launcher(folder, text).rename(folder / "xhpl")
    return [str(program), "-np", "{processes}"]


@pytest.mark.parametrize("redirect", [" > HPL.out", ""], ids=["file", "printed"])
def test_a_sites_own_hpl_is_run_and_read(tmp_path: Path, redirect: str) -> None:
    part = HPL_PART.format(**GOOD).partition("HPL_time")[0]
    command = site(
        tmp_path, f"[ \"$2\" = 1 ] || exit 4\ngrep -q 2000 HPL.dat || exit 5\ncat{redirect} <<'END'\n{part}END"
    )
    asked = {"order": 2000, "block": 64}
    report = HplReport.model_validate_json(hpl_run.run_hpl([asked], tmp_path / "raw", command=command))
    (run,) = report.runs  # not repeated, which would take hours of a machine
    assert (run.verdict, run.measured_rate_flop_per_s) == ("passed", pytest.approx(3.988e9))
    assert run.command == "xhpl -np 1"
    assert (tmp_path / "raw" / run.raw).read_text() == part
    # Nobody saw its ranks: it is no run to validate a model with, but its rate is HPL's.
    assert not run.accepted


def test_another_program_starts_as_the_sites_hpl_does() -> None:
    program = Program.of_site(["mpirun", "--bind-to", "core", "-np", "{processes}", "/opt/hpl/bin/xhpl", "--quiet"])
    assert program.start_other("/tmp/other") == ["mpirun", "--bind-to", "core", "-np", "2", "/tmp/other"]


@pytest.mark.skipif(
    shutil.which("mpicc") is None or hpl_run.find_launcher() is None, reason="no mpicc or no mpirun (libopenmpi-dev)"
)
def test_messages_have_a_measured_rate(tmp_path: Path) -> None:
    launcher = build_command(hpl_run.find_launcher() or "", 2)[:-1]
    rate = measure_message_rate(lambda program: [*launcher, "--oversubscribe", program], tmp_path, {})
    assert rate is not None
    assert 1e7 < rate < 1e12
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", [["/nowhere/mpirun"], ["false"], ["true"]])
def test_messages_that_cannot_be_timed_have_no_rate(tmp_path: Path, command: list[str]) -> None:
    assert measure_message_rate(lambda program: [*command, program], tmp_path, {}) is None


def test_a_sites_hpl_that_is_not_there_or_fails_has_a_reason(tmp_path: Path) -> None:
    asked = [{"order": 2000, "block": 64}]
    report = HplReport.model_validate_json(hpl_run.run_hpl(asked, tmp_path / "raw", command=["/nowhere/xhpl"]))
    assert report.reason == hpl_run.NO_COMMAND(word="/nowhere/xhpl")
    command = site(tmp_path, "echo out of memory; exit 3")
    report = HplReport.model_validate_json(hpl_run.run_hpl(asked, tmp_path / "raw", command=command))
    assert "ended with 3: out of memory" in report.runs[0].reason


def test_the_input_of_hpl_itself_writes_into_a_file() -> None:
    lines = write_input(TEST).splitlines()
    assert lines[2].split()[0] == "HPL.out"
    assert lines[3] == "8"  # anything but 6 and 7 (HPL_pdinfo.c)
