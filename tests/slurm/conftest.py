"""One Slurm cluster for all tests of this folder; skipped, with the reason, where none can be started."""

import pytest
from slurm.cluster import Cluster, find_missing


def pytest_configure(config):
    config.addinivalue_line("markers", "slurm: runs jobs on a Slurm cluster that the tests start themselves")


def pytest_collection_modifyitems(items):
    for item in items:
        if "cluster" in item.fixturenames:
            item.add_marker(pytest.mark.slurm)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    """A running cluster; every test finds it idle and complete."""
    if missing := find_missing():
        pytest.skip(missing)
    with Cluster(tmp_path_factory.getbasetemp() / "slurm") as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def _tidy_up(request):
    """Leave the next test an idle cluster, whatever this one did."""
    yield
    if "cluster" in request.fixturenames:
        request.getfixturevalue("cluster").tidy_up()
