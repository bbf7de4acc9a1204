"""Import and judge the published logs of MLPerf HPC v0.7, compared with ``mlperf-logging``'s checker, interleaved.

We read the archive as published: unpack it in memory, import all runs with their irregularities, and check every log,
on all usable cores, and on a single one.
The package checks the same logs, already unpacked: within one process, which is its fastest mode, and with its
command line, one process per log, timed for a few logs and extrapolated. The answers must be equal.
"""

import argparse
import gc
import logging
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

SHARED = Path(os.environ.get("HPCAI_SHARED_DATA", Path(__file__).parents[2] / "shared/data"))
ARCHIVE = "mlperf_hpc_v0.7.tar.xz"
RULE_SET = "1.0.0"
"""The package has no rules for v0.7; these are the nearest."""
GOAL = 20.0
COMMANDS = 4


def check_own(archive: Path) -> tuple[float, dict[str, bool]]:
    """Import and check the archive; return the time (s) and the verdict of each log."""
    from hpcai.mlperf_hpc.compliance.checked_round import read_checked_round

    gc.collect()
    started_s = time.monotonic()
    checked = read_checked_round(archive)
    taken_s = time.monotonic() - started_s
    assert checked.choice.rule_set == RULE_SET
    return taken_s, {source: verdict.complies for source, verdict in checked.verdicts.items()}


def check_on_one_core(archive: Path) -> float:
    """Import and check the archive on one core; return the time (s)."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        return check_own(archive)[0]
    finally:
        os.sched_setaffinity(0, cores)


def check_by_package(root: Path, logs: list[str]) -> tuple[float, dict[str, bool]]:
    """Check the unpacked logs within this process; return the time (s) and the verdict of each log."""
    from mlperf_logging.compliance_checker import mlp_compliance

    gc.collect()
    started_s = time.monotonic()
    answers = {}
    for log in logs:
        checker = mlp_compliance.make_checker("hpc", RULE_SET, True, False)
        answers[log] = bool(checker.check_file(str(root / log), f"hpc_{RULE_SET}/common.yaml"))
    return time.monotonic() - started_s, answers


def run_command(root: Path, log: str) -> tuple[float, bool]:
    """Check one log by the package's command; return the time (s) and the verdict."""
    command = [sys.executable, "-m", "mlperf_logging.compliance_checker", "--usage", "hpc", "--ruleset", RULE_SET]
    started_s = time.monotonic()
    done = subprocess.run([*command, str(root / log)], cwd=root, capture_output=True, check=False)
    return time.monotonic() - started_s, done.returncode == 0


def compare(archive: Path, root: Path, rounds: int) -> bool:
    """Check in all ways, alternately; print medians; return whether the goal is missed or answers differ."""
    logs = sorted(path.relative_to(root).as_posix() for path in root.rglob("result_*.txt"))
    sample = logs[:: max(1, len(logs) // COMMANDS)][:COMMANDS]
    check_own(archive)  # warms up imports and the rule files
    own_s, single_s, package_s, command_s = [], [], [], []
    differing: set[str] = set()
    for _ in range(rounds):
        taken_s, own = check_own(archive)
        own_s.append(taken_s)
        single_s.append(check_on_one_core(archive))
        taken_s, theirs = check_by_package(root, logs)
        package_s.append(taken_s)
        commands = {log: run_command(root, log) for log in sample}
        command_s.append(statistics.mean(seconds for seconds, _ in commands.values()) * len(logs))
        differing |= {log for log in logs if own.get(log) != theirs[log]} | (own.keys() ^ theirs.keys())
        differing |= {log for log, (_, answer) in commands.items() if own.get(log) != answer}
    size_mb = sum((root / log).stat().st_size for log in logs) / 1e6
    print(f"{len(logs)} logs, {size_mb:.0f} MB, {sum(own.values())} comply; medians of {rounds} rounds (worst to best)")
    cores = len(os.sched_getaffinity(0))
    print(f"  {f'import and verdict from the archive, {cores} cores':44} {statistics.median(own_s):8.2f} s")
    tell("the same on one core", single_s, own_s)
    ratio = tell("mlperf-logging, one process, unpacked before", package_s, own_s)
    tell(f"its command per log (from {len(sample)}, extrapolated)", command_s, own_s)
    print(f"  answers: {'equal' if not differing else f'{len(differing)} differ: {sorted(differing)[:3]}'}")
    print(f"  goal: at least {GOAL:g} x as fast as the package in one process, answers equal")
    return ratio < GOAL or bool(differing)


def tell(name: str, peer_s: list[float], own_s: list[float]) -> float:
    """Print a peer's median time and how much longer it takes; return the median ratio."""
    ratios = [peer / own for peer, own in zip(peer_s, own_s, strict=True)]
    middle = statistics.median(ratios)
    print(f"  {name:44} {statistics.median(peer_s):8.2f} s  {middle:6.1f} x ({min(ratios):.1f} to {max(ratios):.1f})")
    return middle


def main() -> None:
    """Unpack the archive, compare, and fail if the goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    archive = SHARED / ARCHIVE
    if not archive.exists():
        print(f"skipped: {archive} is not here; set HPCAI_SHARED_DATA to the folder of the published logs")
        return
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory(prefix="hpcai-bench-") as folder:
        with tarfile.open(archive) as content:
            content.extractall(folder, filter="data")
        missed = compare(archive, Path(folder), options.rounds)
    sys.exit(missed)


if __name__ == "__main__":
    main()
