"""Processor time and memory of what reads all runs of a study: `hpcai doctor`, `hpcai status`, tables of the runs.

The runs are generated records as the unit tests use them, in the layout of a campaign, in a temporary folder: numbers
from a formula, never measured. Each program is a process of its own. Processor time is compared with the goals,
because wall time depends on the machine's other load. It fails if a goal is missed.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from itertools import product
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from unit.campaign.result_folders import publish  # noqa: E402  the tests' folder is known only now
from unit.record_factory import make_machine, make_record  # noqa: E402

GOAL_S, GOAL_BYTES = 10.0, 1e9
SCALES, REPEATS = 10, 10
"""Of each variant; nodes of one rank each, and runs at each."""
MEASURE = """
import json, resource, subprocess, sys
done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([done.returncode, done.stderr[-2000:], used.ru_utime + used.ru_stime, used.ru_maxrss * 1024]))
"""
SCRIPT = """
import runpy, sys
from pathlib import Path
from types import SimpleNamespace
script, results = sys.argv[1], Path(sys.argv[2])
records = sorted(map(str, results.glob("runs/*/*/*/r*/record.json")))
given = SimpleNamespace(records=records)
made = SimpleNamespace(summary=str(results / "summary.json"))
asked = SimpleNamespace(title="Generated records")
job = SimpleNamespace(input=given, output=made, params=asked, log=[str(results / "collect_runs.log")])
runpy.run_path(script, init_globals={"snakemake": job})
"""


def main() -> None:
    """Generate the runs, print a line per program, and exit with the number of missed goals."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder, "results")
        bytes_each = _make_runs(results, asked.runs)
        print(f"{asked.runs} runs, records of {bytes_each / 1e3:.0f} kB")
        hpcai = [sys.executable, "-m", "hpcai"]
        collect = [sys.executable, "-c", SCRIPT, str(ROOT / "workflow/scripts/collect_runs.py"), str(results)]
        programs = {
            "hpcai doctor": ([*hpcai, "doctor", str(results)], (0, 2)),
            "hpcai status": ([*hpcai, "status", str(results)], (0,)),
            "collect_runs": (collect, (0,)),
        }
        missed = sum(_measure(name, *program) for name, program in programs.items())
    sys.exit(missed)


def _make_runs(results: Path, runs: int) -> int:
    """Publish generated runs; return the size of a record [bytes]."""
    machine = make_machine(nodes=SCALES)
    points = product(range(-(-runs // (SCALES * REPEATS))), range(1, SCALES + 1), range(1, REPEATS + 1))
    size = 0
    for _, (variant, nodes, repetition) in zip(range(runs), points, strict=False):
        plan = {"variant": f"v{variant}", "nodes": nodes, "repetition": repetition, "machine": machine}
        record = make_record(**plan)
        folder = publish(results / "runs" / record.run_id, record)
        size = max(size, (folder / "record.json").stat().st_size)
    return size


def _measure(name: str, command: list[str], expected: tuple[int, ...]) -> bool:
    """Run a program, print what it took, and return whether it missed a goal.

    Raises
    ------
    AssertionError
        If it ended with another status than those expected.
    """
    done = subprocess.run([sys.executable, "-c", MEASURE, *command], check=True, capture_output=True, text=True)
    status, words, used_s, peak_bytes = json.loads(done.stdout)
    if status not in expected:
        raise AssertionError(f"{name}: status {status}: {words}")
    missed = used_s > GOAL_S or peak_bytes > GOAL_BYTES
    goals = f"goals {GOAL_S:g} s, {GOAL_BYTES / 1e9:g} GB{': MISSED' if missed else ''}"
    print(f"{name:14s} {used_s:6.1f} s of processor time  {peak_bytes / 1e6:6.0f} MB  ({goals})", flush=True)
    return bool(missed)


if __name__ == "__main__":
    main()
