"""Horovod with one rank, joined once for all tests that take real steps."""

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session")
def single_rank() -> Iterator[None]:
    from hpcai.training import collective

    assert collective.start().size == 1
    yield
    collective.stop()
