"""Build the list's site: the published rounds that are here, 10,000 simulated entries, and one entry more.

The simulated entries are declared results in 200 packages, 50 in each; every package is verified as any other. Numbers
are drawn at random and exist only in a temporary folder. Each build is a process of its own, as for a user; the goals
are 60 s and 2 GB for all of them, and 3 s for one more.
"""

import argparse
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path

from hpcai.listing.packages import make_submission, write_package

SHARED = Path(os.environ.get("HPCAI_SHARED_DATA", Path(__file__).parents[2] / "shared/data"))
IN_A_PACKAGE = 50
GOAL_S, GOAL_MORE_S, GOAL_BYTES, GOAL_ROUNDS_S = 60.0, 3.0, 2e9, 20.0
HEAD = """name: {name}
title: Simulated results {name}
citation: {{document: Simulation, date: 2024-0{month}-01}}
machines:
  site: {{title: Machine {number}, device: {device}, nodes: 64, devices_per_node: 8}}
workloads:
  image_classification:
    workload: image_classification
    suite: hpc_ai500
    dataset: imagenet (official)
    quality_metric: top1_accuracy
    quality_target: 0.763
    exponent: 5
    flop_per_sample: 2.3e+10
results:
"""
RESULT = (
    "- {{name: r{number}, workload: image_classification, machine: site, nodes: {nodes}, ranks: {ranks}, precision: "
    "fp32, train_rate_samples_per_s: {rate:.1f}, quality: {quality:.4f}, where: row {number}}}\n"
)


def simulate(folder: Path, number: int, entries: int, draw: random.Random) -> None:
    """Write one package of simulated entries."""
    name = f"simulated_{number}"
    device = draw.choice(("V100", "A100", "H100", "MI250X", "A64FX"))
    lines = [HEAD.format(name=name, month=1 + number % 9, number=number, device=device)]
    for place in range(entries):
        nodes = draw.randint(1, 64)
        facts = {"nodes": nodes, "ranks": nodes * 8, "rate": draw.uniform(1e3, 1e6), "quality": draw.uniform(0.7, 0.8)}
        lines.append(RESULT.format(number=place, **facts))
    source = folder.parent / f"{name}.yaml"
    source.write_text("".join(lines), encoding="utf-8")
    submission = make_submission(
        source, name=f"p{number}", organisation=f"Organisation {number % 40}", embargo=None, license_name="CC0"
    )
    write_package(source, folder / f"p{number}", submission)


def build(sources: list[Path], site: Path) -> tuple[float, float, float]:
    """Build the site in a process of its own; return wall time (s), processor time (s) and peak memory (byte)."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started_s = time.monotonic()
    command = [sys.executable, "-m", "hpcai", "list", "build", *map(str, sources), "--out", str(site)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    taken_s = time.monotonic() - started_s
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return taken_s, used_s, after.ru_maxrss * 1024.0


def main() -> None:
    """Print a line per build; exit with 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, default=10_000)
    entries = parser.parse_args().entries
    missed = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rounds = sorted(SHARED.glob("mlperf_hpc_v*.tar.xz"))
        for what, goal_s in (("first", GOAL_ROUNDS_S), ("again", GOAL_MORE_S)) if rounds else ():
            taken_s, used_s, _ = build(rounds, folder / "rounds")
            print(f"{len(rounds)} of 4 rounds, {what}: {taken_s:.1f} s (goal {goal_s:g} s), ", end="")
            print(f"{used_s:.1f} s of processor time")
            missed += taken_s > goal_s
        packages = folder / "submissions"
        packages.mkdir()
        draw = random.Random(date.today().year)
        for number in range(entries // IN_A_PACKAGE):
            simulate(packages, number, IN_A_PACKAGE, draw)
        taken_s, used_s, peak_bytes = build([packages], folder / "site")
        print(f"{entries} entries: {taken_s:.1f} s (goal {GOAL_S:g} s), {used_s:.1f} s of processor time, ", end="")
        print(f"{peak_bytes / 1e9:.2f} GB (goal {GOAL_BYTES / 1e9:g} GB)")
        missed += taken_s > GOAL_S or peak_bytes > GOAL_BYTES
        simulate(packages, entries, 1, draw)
        taken_s, used_s, _ = build([packages], folder / "site")
        print(f"one more: {taken_s:.1f} s (goal {GOAL_MORE_S:g} s), {used_s:.1f} s of processor time")
        missed += taken_s > GOAL_MORE_S
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
