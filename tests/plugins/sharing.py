"""How several workers (`pytest -n`) share the tests."""

import functools
import os
import re
import tempfile
from pathlib import Path

import pytest
from xdist.scheduler import LoadScopeScheduling

from hpcai.core.machine_lock import PLACE_VARIABLE

# The tests of such a folder share a cluster.
WHOLE_FOLDER = "slurm"
USES_STUDY = re.compile(r"^def \w+\(.*\b(measured|five_study|tiny_study)\b", re.MULTILINE)
STARTS_TENSORFLOW = re.compile(r"^\s*(import|from) (tensorflow|keras|unit\.training\.training_samples)\b", re.MULTILINE)


class Shares(LoadScopeScheduling):
    """A worker takes the whole folder, all files on one study, all that start TensorFlow, or one other file."""

    def _split_scope(self, nodeid):
        return find_share(Path(self.config.rootpath, nodeid.partition("::")[0]))


@functools.cache
def find_share(file):
    """Name what a file's tests share."""
    if file.parent.name == WHOLE_FOLDER:
        return str(file.parent)
    if file.parent.name == "end_to_end":  # its programs are processes of their own
        return "study" if USES_STUDY.search(file.read_text()) else str(file)
    return "TensorFlow" if STARTS_TENSORFLOW.search(file.read_text()) else str(file)


def pytest_configure(config):
    """Give each worker folders of its own: for temporary files, and to lock in the place of the machine.

    Tests time nothing: they wait neither for those of another worker nor for a measurement, and none waits for them.
    """
    worker = getattr(config, "workerinput", {"workerid": "alone"})["workerid"]
    folder = Path(tempfile.gettempdir(), f"hpcai-tests-{os.getuid()}-{worker}")
    folder.mkdir(exist_ok=True)
    os.environ[PLACE_VARIABLE] = str(folder)
    if worker != "alone":
        os.environ["TMPDIR"], tempfile.tempdir = str(folder), None


@pytest.hookimpl(optionalhook=True)  # without workers nobody asks
def pytest_xdist_make_scheduler(config, log):
    """Choose how several workers share the tests, whatever `--dist` says; what `testpaths` names first starts first."""
    config.option.loadscopereorder = False
    return Shares(config, log)
