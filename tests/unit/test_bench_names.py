"""`make bench ARGS=NAME` starts no bench silently that is none, and knows only benches that are there."""

import importlib.util
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).parents[2] / "bench"


def test_every_bench_that_is_named_is_there():
    spec = importlib.util.spec_from_file_location("bench_run", BENCH / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.PARTS
    assert [name for name in module.PARTS if not (BENCH / name).is_file()] == []


def test_a_name_that_is_none_is_an_error():
    command = [sys.executable, str(BENCH / "run.py")]
    done = subprocess.run([*command, "bench_nothing"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "bench_nothing" in done.stderr
    listed = subprocess.run([*command, "--help"], capture_output=True, text=True, check=True).stdout
    assert "bench_replay" in listed
