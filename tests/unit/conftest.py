"""What holds for all unit tests."""

import tempfile

import pytest


@pytest.fixture(autouse=True, scope="module")
def own_lock(tmp_path_factory):
    """A lock of the machine of their own: they wait for no measurement that runs beside them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("lock")))
        yield
