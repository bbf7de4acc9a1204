"""The engine jax compared with TensorFlow: equal weights from a seed, equal steps, equal evaluation."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np

PROGRAM = Path(__file__).with_name("jax_program.py")
TESTS = PROGRAM.parents[2]


def steps_with(engine: str) -> dict:
    code = f"import runpy, sys; sys.path.insert(0, {str(TESTS)!r}); sys.argv = ['', {engine!r}]; "
    done = subprocess.run(
        [sys.executable, "-c", f"{code}runpy.run_path({str(PROGRAM)!r})"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_jax_takes_the_steps_of_tensorflow():
    tensorflow, jax = steps_with("tensorflow"), steps_with("jax")
    fresh, warm, trained = jax["digests"]
    assert fresh == warm == tensorflow["digests"][0]  # bit-identical initial weights; the warm-up leaves no trace
    assert trained != fresh
    np.testing.assert_allclose(jax["losses"], tensorflow["losses"], rtol=1e-5)
    assert jax["type"] == "float64"
    np.testing.assert_allclose(jax["rows"], tensorflow["rows"], rtol=1e-5)
    assert jax["rows"][0][0] == 3  # batch padding does not count
    assert jax["parameters"] == tensorflow["parameters"]
