"""The end of a rank's program."""

import subprocess
import sys

import pytest

PROGRAM = """
from hpcai.core.errors import LaunchError
from hpcai.training.ending import run_and_leave

def main():
    print("working")
    {}

run_and_leave(main)
"""


@pytest.mark.parametrize(
    ("statement", "status", "said"),
    [
        ("pass", 0, ""),
        ("raise LaunchError('no such device')", 1, "hpcai.core.errors.LaunchError: no such device"),
        ("raise ValueError('a defect')", 1, "ValueError: a defect"),
        ("raise SystemExit(2)", 2, ""),
        ("raise KeyboardInterrupt", 1, "KeyboardInterrupt"),
    ],
)
def test_a_rank_ends_with_its_status_and_its_reason(statement, status, said):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(statement)], capture_output=True, text=True, check=False
    )
    assert done.returncode == status
    assert done.stdout == "working\n"
    assert said in done.stderr


def test_a_rank_leaves_no_generated_sources_behind(tmp_path):
    source = tmp_path / "__autograph_generated_file_x.py"
    source.touch()
    other = tmp_path / "other.py"
    other.touch()
    register = (
        f"import sys, types; [sys.modules.setdefault(n, types.ModuleType(n)) for n in ('{source.stem}', 'other')]; "
    )
    register += (
        f"sys.modules['{source.stem}'].__file__ = {str(source)!r}; sys.modules['other'].__file__ = {str(other)!r}"
    )
    done = subprocess.run([sys.executable, "-c", PROGRAM.format(register)], check=False, capture_output=True)
    assert done.returncode == 0
    assert (source.exists(), other.exists()) == (False, True)
