"""Fixtures of all tests."""

import pytest
from workflow_project import Project


@pytest.fixture
def project(tmp_path):
    """An empty working directory with the workflow of this checkout."""
    return Project(tmp_path)
