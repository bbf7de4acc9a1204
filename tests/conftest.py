"""Fixtures of all tests."""

import signal

import pytest
from hypothesis import settings
from workflow_project import Project

# Other work on the machine must not fail a test: none is timed.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

# What a script starts in the background inherits ignored signals; the programs under test then leave them ignored.
for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, handler)


def pytest_collection_modifyitems(items):
    """Say which tests one worker has to run (`pytest -n`): a file, or all that share a cluster or the tiny study."""
    for item in items:
        shared = {"cluster", "tiny_study"} & set(item.fixturenames)
        item.add_marker(pytest.mark.xdist_group(min(shared, default=item.nodeid.partition("::")[0])))


@pytest.fixture
def project(tmp_path):
    """An empty working directory with the workflow of this checkout."""
    return Project(tmp_path)
