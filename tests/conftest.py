"""Fixtures of all tests."""

import signal
from pathlib import Path

import pytest
from hypothesis import settings
from workflow_project import Project
from xdist.scheduler import LoadScopeScheduling

WHOLE_FOLDERS = ("slurm", "end_to_end")

# Other work on the machine must not fail a test: none is timed.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

# What a script starts in the background inherits ignored signals; the programs under test then leave them ignored.
for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, handler)


class FoldersAndFiles(LoadScopeScheduling):
    """Several workers (`pytest -n`) share the files; the folders whose tests share a cluster or a study stay whole."""

    def _split_scope(self, nodeid):
        file = Path(nodeid.partition("::")[0])
        return str(file.parent if file.parent.name in WHOLE_FOLDERS else file)


@pytest.hookimpl(optionalhook=True)  # without workers nobody asks
def pytest_xdist_make_scheduler(config, log):
    """Choose how several workers share the tests, whatever `--dist` says."""
    return FoldersAndFiles(config, log)


@pytest.fixture
def project(tmp_path):
    """An empty working directory with the workflow of this checkout."""
    return Project(tmp_path)
