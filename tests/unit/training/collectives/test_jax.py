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
