"""What holds for all unit tests."""

import tempfile
from collections.abc import Iterator
from importlib.util import find_spec

import pytest


@pytest.fixture(autouse=True, scope="module")
def own_lock(tmp_path_factory):
    """A lock of the machine of their own: they wait for no measurement that runs beside them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("lock")))
        yield


@pytest.fixture(scope="session")
def single_rank() -> Iterator[None]:
    """One rank, joined once for all tests that take real steps: by Horovod, or by TensorFlow where there is none."""
    from hpcai.config.runs import Point
    from hpcai.training import collective

    engine = "horovod" if find_spec("horovod") else "tensorflow"
    alone = Point(benchmark="any", variant="any", nodes=1, ranks_per_node=1)
    assert collective.start(alone, engine).size == 1
    yield
    collective.stop()
