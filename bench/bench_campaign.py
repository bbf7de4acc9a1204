"""A campaign of many runs, from an empty folder to the report, while Snakemake is killed several times.

Snakemake, `hpcai measure`, launcher, records and report are real. Ranks are stubs (`tests/stub_ranks`), which obey
their plan, write what ranks write and learn nothing: the numbers in such records say nothing about any machine.
`--at-once` runs are under way at the same time, as on as many nodes.

`--kills` times, evenly spaced over the runs, Snakemake gets SIGKILL; then the same command is started again, after
`--unlock`, as `hpcai doctor` advises. It fails unless every run is there exactly once in the end, no training was
done twice, and `hpcai doctor` finds nothing wrong.
"""

import argparse
import collections
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from hpcai.core.machine_lock import PLACE_VARIABLE
from hpcai.records.files import read_record
from hpcai.records.run import FINISHED

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
CONFIG = ROOT / "tests/config"
BENCHMARK = "cosmoflow_mini"
REPEATS = 10
LOOK_SHARE = 0.02
"""Largest share of the time for counting records."""
END_S = 600.0
"""Longest time without a new record."""


@dataclass(frozen=True)
class Place:
    """A working folder with the study of a campaign."""

    folder: Path
    runs: int
    at_once: int

    @property
    def words(self) -> list[str]:
        """The command line of Snakemake, without targets."""
        files = ["--snakefile", str(ROOT / "Snakefile"), "--directory", str(self.folder)]
        profile = ["--workflow-profile", str(ROOT / "profiles/default"), "--default-resources", "launcher=spawn"]
        profile += ["--cores", str(self.at_once), "--set-threads", "train=1"]
        study = ["--configfile", str(self.folder / "config/study.yaml")]
        return [str(BIN / "snakemake"), *files, *profile, *study, "--config", f"config_dir={self.folder / 'config'}"]

    @property
    def environment(self) -> dict[str, str]:
        """Variables with which ranks are stubs, and nodes as many as are needed."""
        path = [
            *(str(ROOT / "tests" / name) for name in ("stub_ranks", "short_measurements")),
            *filter(None, [os.environ.get("PYTHONPATH")]),
        ]
        stubs = {"STUB_RANKS_ONLY": "yes", "STUB_NODES": "yes"}
        return {**os.environ, **stubs, "PYTHONPATH": os.pathsep.join(path), PLACE_VARIABLE: str(self.folder)}

    def records(self) -> list[Path]:
        """Return the records of finished runs."""
        return sorted(self.folder.glob("results/runs/*/*/*/r*/record.json"))


def main() -> None:
    """Run the campaign, print what each part took, and exit with 1 if anything is lost, double or unwell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--at-once", type=int, default=4)
    parser.add_argument("--folder", type=Path, help="where to work, instead of a temporary folder; kept")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        place = write_study(asked.folder or Path(temporary), asked.runs, asked.at_once)
        problems = run_campaign(place, asked.kills)
    print("\n".join(problems) or "nothing lost, nothing double, nothing for hpcai doctor")
    sys.exit(1 if problems else 0)


def write_study(folder: Path, runs: int, at_once: int) -> Place:
    """Write a study of a number of runs of stub ranks: variants of one benchmark, ten repeats of each."""
    shutil.copytree(CONFIG, folder / "config")
    benchmark = folder / f"config/benchmarks/{BENCHMARK}.yaml"
    settings = yaml.safe_load(benchmark.read_text())
    settings["target"]["value"] = 1.0  # the stub's error after its first epoch
    benchmark.write_text(yaml.safe_dump(settings))
    firsts = range(0, runs, REPEATS)
    rows = [f"{BENCHMARK}\tv{first // REPEATS}\t1\t1\t{min(REPEATS, runs - first)}" for first in firsts]
    lines = ["benchmark\tvariant\tnodes\tranks_per_node\trepeats", *rows]
    (folder / "config/runs/campaign.tsv").write_text("\n".join(lines) + "\n")
    study = yaml.safe_load((CONFIG / "tiny.yaml").read_text())
    study |= {"name": "campaign", "title": f"{runs} runs of stub ranks", "runs": "campaign", "profile_variants": ["v0"]}
    (folder / "config/study.yaml").write_text(yaml.safe_dump(study))
    return Place(folder, runs, at_once)


def run_campaign(place: Place, kills: int) -> list[str]:
    """Measure all runs with kills in between, make the report; return what is wrong."""
    started_s, before_s = time.monotonic(), used_s()
    for number in range(1, kills + 1):
        have = measure_until(place, place.runs * number // (kills + 1))
        print(f"killed Snakemake after {have} of {place.runs} runs, {time.monotonic() - started_s:.0f} s", flush=True)
        call(place, "measure", "--unlock")
    call(place, "measure")
    measured_s, used_by_runs_s = time.monotonic() - started_s, used_s() - before_s
    print(f"{place.runs} runs measured: {measured_s:.0f} s, {measured_s / place.runs:.2f} s each; ", end="")
    print(f"processor time {used_by_runs_s / place.runs:.2f} s each", flush=True)
    problems = look_at_runs(place)
    started_s, before_s = time.monotonic(), used_s()
    # What is there: this machine's ceilings are measured as in any study.
    call(place, "report", config=["measure=false"])
    print(f"report: {time.monotonic() - started_s:.0f} s, {used_s() - before_s:.0f} s of processor time", flush=True)
    return [*problems, *look_at_doctor(place)]


def measure_until(place: Place, enough: int) -> int:
    """Start the campaign, kill Snakemake when there are enough records; return how many there are then.

    Raises
    ------
    AssertionError
        If Snakemake ended before, or no record came for long.
    """
    with (place.folder / "snakemake.log").open("ab") as log:
        started = subprocess.Popen(
            [*place.words, "--", "measure"], env=place.environment, stdout=log, stderr=subprocess.STDOUT
        )
    have, last_s = 0, time.monotonic()
    while have < enough:
        looked_s = time.monotonic()
        found = len(place.records())
        have, last_s = (found, looked_s) if found > have else (have, last_s)
        if started.poll() is not None or looked_s - last_s > END_S:
            started.kill()
            raise AssertionError(f"{have} of {place.runs} records, Snakemake's status {started.returncode}")
        time.sleep(max(0.5, (time.monotonic() - looked_s) / LOOK_SHARE))
    started.send_signal(signal.SIGKILL)
    started.wait()
    return have


def call(place: Place, *words: str, config: Sequence[str] = ()) -> None:
    """Call Snakemake to its end.

    Raises
    ------
    AssertionError
        If it fails.
    """
    options, targets = [word for word in words if word[0] == "-"], [word for word in words if word[0] != "-"]
    command = [*place.words, *config, *options, "--", *targets]
    log = place.folder / "snakemake.log"
    with log.open("ab") as output:
        done = subprocess.run(command, env=place.environment, stdout=output, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        raise AssertionError(f"snakemake {' '.join(words)}: status {done.returncode}: {log.read_text()[-2000:]}")


def look_at_runs(place: Place) -> list[str]:
    """Return what was lost or done twice: each planned run has one record, and one finished training."""
    problems = []
    records = [read_record(path) for path in place.records()]
    counted = collections.Counter(record.run_id for record in records)
    if len(counted) != place.runs or set(counted.values()) != {1}:
        problems.append(f"found {len(counted)} runs and {len(records)} records, expected {place.runs} of each")
    unwell = [f"{record.run_id}: {record.outcome}" for record in records if record.outcome not in FINISHED]
    attempts = collections.Counter(len(record.earlier_attempts) + 1 for record in records)
    trained_twice = [
        str(report.parent) for report in place.folder.glob("results/runs/*/*/*/r*/attempts/*/training.json")
    ]
    problems += [f"failed: {unwell}"] if unwell else []
    problems += [f"trained, and not published: {trained_twice}"] if trained_twice else []
    print(f"runs by their number of attempts: {dict(attempts)}")
    return problems


def look_at_doctor(place: Place) -> list[str]:
    """Return what `hpcai doctor` finds wrong; profiled runs were not asked for and are not there."""
    findings = place.folder / "doctor.json"
    command = [str(BIN / "hpcai"), "doctor", str(place.folder / "results"), "--json", str(findings)]
    subprocess.run(command, env=place.environment, cwd=place.folder, capture_output=True, check=False)
    found = json.loads(findings.read_text())
    wrong = {"problems": found["problems"], "failures": found["failures"], "lost": found["lost_points"]}
    if found["counts"]["runs"] != {"finished": place.runs}:
        wrong["runs"] = found["counts"]["runs"]
    wrong["leftovers"] = [one["folder"] for one in found["runs"] if one["leftovers"] or not one["planned"]]
    return [f"hpcai doctor, {what}: {each}" for what, each in wrong.items() if each]


def used_s() -> float:
    """Return the processor time of all processes that were waited for: not of those whose parent was killed."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
