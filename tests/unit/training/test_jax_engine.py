"""The engine jax compared with TensorFlow: equal weights from a seed, equal steps, equal evaluation."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from unit.training.jax_program import take_steps

HERE = Path(__file__).parent
TESTS = HERE.parents[1]


def called(program: str, *arguments: str) -> str:
    """Return what a program of this folder printed; Keras' backend needs a process of its own."""
    code = f"import runpy, sys; sys.path.insert(0, {str(TESTS)!r}); sys.argv = {['', *arguments]!r}; "
    done = subprocess.run(
        [sys.executable, "-c", f"{code}runpy.run_path({str(HERE / program)!r}, run_name='__main__')"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_jax_takes_the_steps_of_tensorflow(single_rank):
    """TensorFlow's are taken here."""
    tensorflow, jax = take_steps("tensorflow"), json.loads(called("jax_program.py").splitlines()[-1])
    fresh, warm, trained = jax["digests"]
    assert fresh == warm == tensorflow["digests"][0]  # bit-identical initial weights; the warm-up leaves no trace
    assert trained != fresh
    np.testing.assert_allclose(jax["losses"], tensorflow["losses"], rtol=1e-5)
    assert jax["type"] == "float64"
    np.testing.assert_allclose(jax["rows"], tensorflow["rows"], rtol=1e-5)
    assert jax["rows"][0][0] == 3  # batch padding does not count
    assert jax["parameters"] == tensorflow["parameters"]


@pytest.mark.slow
@pytest.mark.parametrize("network", ["resnet", "deepcam"])
def test_gradients_are_equal_but_for_the_rounding_of_double_precision(tmp_path, network):
    """What differs in single precision is then rounding too: networks, batch-norm statistics and their gradients."""
    files = {backend: tmp_path / f"{backend}.npz" for backend in ("tensorflow", "jax")}
    for backend, file in files.items():
        called("gradients_program.py", backend, network, str(file))
    tensorflow, jax = (np.load(file) for file in files.values())
    assert len(tensorflow.files) > 20
    for name in tensorflow.files:
        expected = tensorflow[name]
        assert expected.dtype == jax[name].dtype == np.float64
        # Some gradients are zero but for rounding: what shifts all of what is normalised next.
        np.testing.assert_allclose(jax[name], expected, rtol=0, atol=1e-11 * max(1, np.abs(expected).max()))
