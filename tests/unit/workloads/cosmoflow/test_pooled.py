"""Convolutions and pools by blocks have the values and the gradients of separate ones."""

import subprocess
import sys
from pathlib import Path

import numpy as np

PROGRAM = Path(__file__).with_name("pooled_program.py")


def test_by_blocks_are_the_values_and_gradients_of_a_convolution_and_a_pool(tmp_path: Path) -> None:
    """Of equal voxels the first gets the gradient."""
    file = tmp_path / "found.npz"
    done = subprocess.run([sys.executable, PROGRAM, file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = np.load(file)
    ours = [name for name in found.files if name.endswith("ours")]
    assert len(ours) == 2 * 2 + 2 * 3
    for name in ours:
        np.testing.assert_array_equal(found[name], found[name.replace("ours", "theirs")], err_msg=name)
        assert found[name].any()
