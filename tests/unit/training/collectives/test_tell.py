"""Texts that real ranks tell each other before any of them has touched its accelerator."""

import subprocess
import sys

import pytest

PROGRAM = """
import sys
import tensorflow as tf

def touched(*_):
    raise SystemExit("a device was asked for")

engine = sys.argv[1]
if engine == "jax":
    import jax

    jax.devices = jax.local_devices = touched

from hpcai.training import collective

ranks = collective.start(engine=engine)
print(collective.tell("rank" + "." * ranks.rank, "who"), flush=True)
collective.stop()
"""
LAUNCHERS = {"horovod": ("launch", "--gloo"), "tensorflow": ("spawn",), "jax": ("spawn",)}


@pytest.mark.parametrize(
    "engine", ["jax", *(pytest.param(name, marks=pytest.mark.slow) for name in ("horovod", "tensorflow"))]
)
def test_ranks_know_the_texts_of_all_in_rank_order(engine: str) -> None:
    module, *options = LAUNCHERS[engine]
    launcher = [sys.executable, "-m", f"hpcai.training.{module}", *options, "-np", "2"]
    done = subprocess.run(
        [*launcher, sys.executable, "-c", PROGRAM, engine], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(str(["rank", "rank."])) == 2
