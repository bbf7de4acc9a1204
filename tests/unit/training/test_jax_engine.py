"""The engine jax compared with TensorFlow: equal weights from a seed, equal steps, equal evaluation."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
from unit.training.jax_program import take_steps

PROGRAM = Path(__file__).with_name("jax_program.py")
TESTS = PROGRAM.parents[2]


def steps_with_jax() -> dict:
    code = f"import runpy, sys; sys.path.insert(0, {str(TESTS)!r}); "
    code += f"runpy.run_path({str(PROGRAM)!r}, run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_jax_takes_the_steps_of_tensorflow(single_rank):
    """TensorFlow's are taken here."""
    tensorflow, jax = take_steps("tensorflow"), steps_with_jax()
    fresh, warm, trained = jax["digests"]
    assert fresh == warm == tensorflow["digests"][0]  # bit-identical initial weights; the warm-up leaves no trace
    assert trained != fresh
    np.testing.assert_allclose(jax["losses"], tensorflow["losses"], rtol=1e-5)
    assert jax["type"] == "float64"
    np.testing.assert_allclose(jax["rows"], tensorflow["rows"], rtol=1e-5)
    assert jax["rows"][0][0] == 3  # batch padding does not count
    assert jax["parameters"] == tensorflow["parameters"]
