"""How ranks of the engine jax join, in a process of its own: JAX joins once."""

import json
import os
import subprocess
import sys

import pytest

from hpcai.training.rendezvous import ADDRESS, LOOPBACK, PORT, SECRET, Rendezvous, new_secret

JOIN = """
import json
from hpcai.training.collectives.jax import COLLECTIVES
import jax
jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_cuda_visible_devices", "0")  # as chosen for this rank
alone = COLLECTIVES()
alone._join()
print(json.dumps([jax.process_count(), jax.config.read("jax_cuda_visible_devices")]))
jax.distributed.shutdown()
"""


MESSAGES = """
import json, os
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh
from hpcai.training.collectives.jax import AXES, EVERYWHERE, OWN, on_each_rank, sums_over_ranks
mesh = Mesh(np.array(jax.devices()).reshape(2, 1), AXES)
own = [np.arange(12.0, dtype="f4").reshape(2, 2, 3), np.full((2, 4), 0.5, "f2"), np.float32([[1], [2]])]
own += [np.int32([2**30, 2**30 - 1])]
step = jax.jit(on_each_rank(lambda every: sums_over_ranks([one[0] for one in every]), mesh, (OWN,), EVERYWHERE))
sums = step(own)
expected = [one.sum(0, dtype=one.dtype) for one in own]
equal = [one.dtype == two.dtype and bool((np.asarray(one) == two).all()) for one, two in zip(sums, expected)]
print(json.dumps([equal, step.lower(own).as_text().count("all_reduce\\"")]))
"""


def test_between_processors_arrays_of_one_type_travel_as_one_message() -> None:
    """Each message waits for the ranks to meet: with one for each layer, a step of ResNet-50 took 12 times as long."""
    done = subprocess.run([sys.executable, "-c", MESSAGES], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == [[True] * 4, 3]


@pytest.mark.parametrize("slurm", [{"SLURM_JOB_ID": "7"}, {"SLURM_JOB_ID": "7", "SLURM_LOCALID": "3"}])
def test_a_job_of_slurm_does_not_choose_the_device(slurm: dict[str, str]) -> None:
    """Snakemake's plug-in for steps hides the local index; where Slurm starts the ranks, it names another device."""
    secret = new_secret()
    server = Rendezvous(LOOPBACK, secret)
    port = server.start()
    server.expect(["here"], 1)
    outside = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_")}
    environment = {**outside, **slurm, ADDRESS: LOOPBACK, PORT: str(port), SECRET: secret}
    done = subprocess.run([sys.executable, "-c", JOIN], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == [1, "0"]
