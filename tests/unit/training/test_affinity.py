"""Cores of a rank."""

import pytest

from hpcai.core.errors import LaunchError
from hpcai.training.affinity import accelerator_of, own_cores


@pytest.mark.parametrize(
    ("allowed", "local_rank", "cores_per_rank", "expected"),
    [
        ({0, 1}, 0, 1, (0,)),
        ({0, 1}, 1, 1, (1,)),
        ({3, 5, 7, 9}, 1, 2, (7, 9)),
        ({4}, 1, 1, (4,)),  # already bound by the launcher
        ({0, 1}, 0, 4, (0, 1)),  # fewer than planned: the report states the number
    ],
)
def test_own_cores(allowed: set[int], local_rank: int, cores_per_rank: int, expected: tuple[int, ...]) -> None:
    assert own_cores(allowed, local_rank, cores_per_rank) == expected


def test_too_few_cores_for_the_ranks_of_a_node_is_an_error() -> None:
    with pytest.raises(LaunchError, match=r"local rank 2: found 2 usable cores.*expected 3"):
        own_cores({0, 1}, 2, 1)


def test_a_rank_has_the_accelerator_of_its_place() -> None:
    assert accelerator_of({"CUDA_VISIBLE_DEVICES": "2,GPU-8932f937"}, 1) == "GPU-8932f937"
    assert accelerator_of({}, 1) == "1"
