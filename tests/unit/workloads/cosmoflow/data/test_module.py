"""What the data module needs in memory."""

import subprocess
import sys

PROGRAM = """
import sys
import hpcai.data.prepare, hpcai.workloads.cosmoflow.data.module
print(*{"h5py", "requests", "scipy", "tensorflow"} & sys.modules.keys())
"""


def test_examining_samples_needs_no_library_of_the_generator_or_of_downloads() -> None:
    """Each of the processes that examine half a million files would hold it."""
    assert subprocess.check_output([sys.executable, "-c", PROGRAM], text=True).split() == []
