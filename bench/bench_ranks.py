"""What a rank costs outside of its training, from 64 to 1,024 ranks, and how many files a run leaves behind.

Ranks are stubs: processes that meet at a real rendezvous (`meeting_ranks.py`), reports and samples written as ranks
write them, and processes of `echo` under the real launcher. Times are processor times of everything here, per rank.
With `--latency-ms`, each request to the rendezvous sleeps as long, as if the ranks were on nodes apart.

It fails if a rank costs more at the largest number than `MARGIN` times its cost at the smallest, or if the number of
files depends on the ranks.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from meeting_ranks import RANKS_PER_NODE
from unit.record_factory import make_machine, make_provenance, make_record

from hpcai.core.files import write_atomically
from hpcai.measure import nodes
from hpcai.measure.publish import publish
from hpcai.measure.recording import record_attempt
from hpcai.measure.watch import Ending
from hpcai.records.files import write_json
from hpcai.records.run import RunRecord
from hpcai.records.weak import NodeShare
from hpcai.training.join_step import horovod_variables
from hpcai.training.journal import ResourceSampler

SAMPLES = 20
"""Rows of resources of each rank: ten seconds of training."""
MARGIN = 1.25
"""Tolerated growth of the cost per rank: repeats of one measurement differ by as much here."""


def used_s() -> float:
    """Return the processor time of this process and of its ended children."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def meet(ranks: int, latency_s: float) -> dict[str, float]:
    """Let all ranks meet as the engines let them; return the processor time of the ranks and of the server."""
    command = [sys.executable, str(Path(__file__).with_name("meeting_ranks.py")), str(ranks), str(latency_s)]
    met = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return {"rendezvous: ranks": met["ranks_s"], "rendezvous: server": met["server_s"]}


def check(ranks: int) -> None:
    """Read the answers of a node for each rank before and after a run, and place the ranks; Slurm's step is a stub."""
    asked = nodes.Ranks("stub", ranks, 1, 1, tuple(NodeShare(host=f"n{node}", cores=(0,)) for node in range(ranks)))
    empty = {"page_cache": "dropped", "swept": 0, "swept_names": (), "ended": (), "problem": ""}
    facts = nodes.NodeFacts(node="n", hostname="n", cores=1, memory_bytes=1, **empty)
    answers = "\n".join(facts.model_copy(update={"node": f"n{node}"}).model_dump_json() for node in range(ranks))
    step = mock.patch.object(nodes, "_run_step", return_value=(answers, "", ""))
    with step, mock.patch.object(nodes, "find_allocation", return_value=object()):
        report = nodes.prepare_nodes("stub", asked, Path("scratch"), [])
        silent = nodes.clean_nodes("stub", asked, [Path("scratch")], ["a1"])
    if report.problem or len(report.nodes) != ranks or silent:
        raise SystemExit(f"{len(report.nodes)} of {ranks} nodes answered: {report.problem}")
    for rank in range(ranks):
        variables = {"SLURM_PROCID": rank, "SLURM_NTASKS": ranks, "SLURM_LOCALID": 0, "SLURM_NODEID": rank}
        task = {name: str(value) for name, value in (variables | {"SLURM_STEP_NUM_NODES": ranks}).items()}
        if horovod_variables({**task, "SLURMD_NODENAME": f"n{rank}"})["HOROVOD_RANK"] != str(rank):
            raise SystemExit(f"rank {rank} of {ranks} has another place")


def make_run(ranks: int) -> RunRecord:
    """Return the record of a run with so many ranks, whose parts are what its ranks report."""
    count = ranks // RANKS_PER_NODE
    machine = make_machine(nodes=count, ranks_per_node=RANKS_PER_NODE)
    return make_record(nodes=count, ranks_per_node=RANKS_PER_NODE, machine=machine)


def write_attempt(record: RunRecord, attempt: Path) -> None:
    """Write what ranks write while they run."""
    (attempt / "ranks").mkdir(parents=True)
    rows = [",".join(ResourceSampler.COLUMNS), *(f"{row / 2:.3f},1000,97.5,{row},4096" for row in range(SAMPLES))]
    for report in record.ranks:
        write_json(report, attempt / "ranks" / f"rank{report.placement.rank}.json")
        write_atomically(attempt / f"resources_rank{report.placement.rank}.csv", ("\n".join(rows) + "\n").encode())
    write_json(record.training, attempt / "training.json")
    write_json(record.plan, attempt / "plan.json")
    (attempt / "output.log").write_text("".join(f"[{rank}]<stdout>:ready\n" for rank in range(len(record.ranks))))


def publish_attempt(record: RunRecord, attempt: Path, folder: Path) -> None:
    """Merge, record, judge and publish an attempt as a supervisor does."""
    ending = Ending(verdict="ended", exit_status=0, started_monotonic_s=0.0, wall_s=record.wall_s)
    facts = {"data_source": "generated", "started_utc": record.started_utc}
    made = record_attempt(record.plan, attempt, ending, make_provenance(), facts)
    if len(made.ranks) != len(record.ranks) or made.outcome != record.outcome:
        raise SystemExit(f"{len(made.ranks)} of {len(record.ranks)} ranks are in the record: {made.reason}")
    publish(attempt, folder, made)


def launch(ranks: int, log: Path) -> None:
    """Start tiny processes with the own launcher; their output goes to one file, as in a run."""
    command = [sys.executable, "-m", "hpcai.training.spawn", "-np", str(ranks), "echo", "ready"]
    with log.open("wb") as stream:
        subprocess.run(command, check=True, stdout=stream)
    lines = log.read_text().splitlines()
    if sorted(lines) != sorted(f"[{rank}]<stdout>:ready" for rank in range(ranks)):
        raise SystemExit(f"{log}: found {len(lines)} lines, expected one of each of {ranks} ranks")


def files_below(folder: Path) -> list[str]:
    """Return the files below a folder."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def measure(ranks: int, folder: Path, latency_s: float) -> tuple[dict[str, float], list[str], int]:
    """Return processor seconds by part, the files of the published run, and how many there were while it ran."""
    found: dict[str, float] = {}

    def timed(name: str, part: Callable[[], None]) -> None:
        start_s = used_s()
        part()
        found[name] = used_s() - start_s

    run, attempt = folder / f"r{ranks}", folder / f"r{ranks}" / "attempts" / "a1"
    record = make_run(ranks)
    found |= meet(ranks, latency_s)
    timed("launch, log", lambda: launch(ranks, folder / f"{ranks}.log"))
    timed("checks, placement", lambda: check(ranks))
    write_attempt(record, attempt)
    running = len(files_below(attempt))
    timed("record, publish", lambda: publish_attempt(record, attempt, run))
    return found, files_below(run), running


def main() -> None:
    """Print a line per number of ranks and part; exit with 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, nargs="+", default=[64, 256, 1024])
    parser.add_argument("--latency-ms", type=float, default=1.0)
    options = parser.parse_args()
    costs: dict[str, list[float]] = {}
    files = []
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "warm").mkdir()
        measure(options.ranks[0], Path(name) / "warm", options.latency_ms / 1e3)
        for ranks in options.ranks:
            found, left, running = measure(ranks, Path(name), options.latency_ms / 1e3)
            files.append(left)
            parts = ", ".join(f"{part} {time_s * 1e3 / ranks:.2f}" for part, time_s in found.items())
            print(f"{ranks} ranks: ms of processor time per rank: {parts}; ", end="")
            print(f"files: {running} running, {len(left)} published", flush=True)
            for part, time_s in found.items():
                costs.setdefault(part, []).append(time_s / ranks)
    grown = [part for part, of in costs.items() if of[-1] > MARGIN * of[0]]
    differ = any(left != files[0] for left in files)
    print(f"published: {', '.join(files[-1])}")
    print(f"cost per rank grown beyond {MARGIN}: {', '.join(grown) or 'none'}; files depend on ranks: {differ}")
    sys.exit(1 if grown or differ else 0)


if __name__ == "__main__":
    main()
