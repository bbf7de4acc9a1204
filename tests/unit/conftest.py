"""What holds for all unit tests."""

import tempfile
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="module")
def own_lock(tmp_path_factory):
    """A lock of the machine of their own: they wait for no measurement that runs beside them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("lock")))
        yield


@pytest.fixture(scope="session")
def single_rank() -> Iterator[None]:
    """Horovod with one rank, joined once for all tests that take real steps."""
    from hpcai.training import collective

    assert collective.start().size == 1
    yield
    collective.stop()
