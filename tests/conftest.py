"""Fixtures of all tests."""

import pytest
from hypothesis import settings
from workflow_project import Project

# Other work on the machine must not fail a test: none is timed.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.fixture
def project(tmp_path):
    """An empty working directory with the workflow of this checkout."""
    return Project(tmp_path)
