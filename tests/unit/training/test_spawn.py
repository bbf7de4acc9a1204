"""Our own launcher for ranks on one node: their indices, their output, and how a failing rank ends all."""

import subprocess
import sys
import time

import pytest

from hpcai.launchers.spawn import LAUNCHER

RANK = "import os, sys, time; rank = int(os.environ['HOROVOD_RANK']); "


def spawn(code: str, ranks: int = 2) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "hpcai.training.spawn", "-np", str(ranks), sys.executable, "-c", RANK + code]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_each_rank_knows_its_place_and_lines_are_marked():
    done = spawn("print(os.environ['HOROVOD_LOCAL_SIZE'], rank)", ranks=3)
    assert done.returncode == 0
    assert sorted(done.stdout.splitlines()) == [f"[{rank}]<stdout>:3 {rank}" for rank in range(3)]


@pytest.mark.parametrize(("ending", "status"), [("sys.exit(7)", 7), ("os.kill(os.getpid(), 9)", 137)])
def test_the_first_that_fails_ends_all_and_the_launcher_recognises_it(ending, status):
    started_s = time.monotonic()
    done = spawn(f"time.sleep(60 if rank == 0 else 0.2); {ending}")
    assert done.returncode == status
    assert time.monotonic() - started_s < 30
    first = LAUNCHER.first_end.pattern.search(done.stdout + done.stderr)
    assert (first["rank"], int(first["code"])) == ("1", status)


def test_told_to_end_it_leaves_nothing_behind():
    command = [
        sys.executable,
        "-m",
        "hpcai.training.spawn",
        "-np",
        "2",
        sys.executable,
        "-c",
        "import os, time; print(os.getpid(), flush=True); time.sleep(60)",
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    ranks = [int(process.stdout.readline().rpartition(":")[2]) for _ in range(2)]
    process.terminate()
    assert process.wait(timeout=30) == 128 + 15
    for rank in ranks:
        assert subprocess.run(["kill", "-0", str(rank)], capture_output=True, check=False).returncode != 0
