"""Fixtures of all tests."""

import os
import signal

import pytest
from hypothesis import settings
from workflow_project import Project

pytest_plugins = (
    "pytester",
    "plugins.budget",
    "plugins.bytecode",
    "plugins.garbage",
    "plugins.names",
    "plugins.sharing",
)

# As in trainings: TensorFlow by itself uses oneDNN only on processors with AVX-512's neural-network instructions, and
# without it knows no gradient of a dilated convolution.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")

# Other work on the machine must not fail a test: none is timed.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

# What a script starts in the background inherits ignored signals; the programs under test then leave them ignored.
for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, handler)


@pytest.fixture
def project(tmp_path):
    """An empty working directory with the workflow of this checkout."""
    return Project(tmp_path)
