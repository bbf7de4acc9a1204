"""Which rows of the run table may have ranks that share samples."""

from pathlib import Path

import pytest
from unit.config.test_load import BENCHMARK, HEADER, MACHINE, STUDY, change, folder  # noqa: F401  a fixture
from unit.refusals import wrong_setting

from hpcai.config.benchmark import WHOLE_SAMPLES
from hpcai.config.load import NO_GROUPS_BESIDE_PARTS, PARTS_OF_NODE, PARTS_OF_RANKS, load_study_file
from hpcai.config.plans import Campaign
from hpcai.config.runs import Point
from hpcai.core.messages import Message
from hpcai.training.collectives.base import rank_groups
from hpcai.workloads.cosmoflow.settings import ODD_PLANES

COLUMNS = f"{HEADER}\tbatchnorm_group\tspatial_parts"


def load(folder: Path, parts: int, ranks: int = 4, batch: int = 4, group: int = 1, nodes: int = 1) -> Campaign:  # noqa: F811
    """Load the study with one row of a machine of enough ranks; its cubes have an edge of 16."""
    for key, value in {"nodes": 8, "ranks_per_node": 8, "cores_per_node": 8, "cores_per_rank": 1}.items():
        change(folder, MACHINE, key, value)
    row = f"cosmoflow_tiny\tfp32\t{nodes}\t{ranks}\t1\tfp32\tnone\t{batch}\t{group}\t{parts}"
    (folder / "runs/default.tsv").write_text(f"{COLUMNS}\n{row}\n")
    return load_study_file(folder / STUDY)


@pytest.mark.parametrize(("parts", "ranks", "local"), [(1, 4, 1), (2, 4, 2), (4, 4, 4), (4, 8, 2)])
def test_a_replica_takes_the_batch_of_its_ranks(folder: Path, parts: int, ranks: int, local: int) -> None:  # noqa: F811
    change(folder, BENCHMARK, "model.conv_layers", 2)
    (plan,) = load(folder, parts, ranks).plans().values()
    assert (plan.global_batch, plan.local_batch, plan.point.replicas) == (4, local, ranks // parts)


def test_plans_of_whole_samples_are_as_they_were(folder: Path) -> None:  # noqa: F811
    (whole,) = load(folder, 1).plans().values()
    assert "spatial_parts" not in whole.model_dump(mode="json")["point"]
    change(folder, BENCHMARK, "model.conv_layers", 2)
    (cut,) = load(folder, 2).plans().values()
    assert cut.model_dump(mode="json")["point"]["spatial_parts"] == 2
    assert cut.digest != whole.digest


@pytest.mark.parametrize(
    ("settings", "place", "message"),
    [
        ({"parts": 4, "ranks": 2}, "spatial_parts", PARTS_OF_RANKS),
        ({"parts": 2, "ranks": 3, "batch": 3}, "spatial_parts", PARTS_OF_RANKS),
        ({"parts": 4, "group": 2}, "batchnorm_group", NO_GROUPS_BESIDE_PARTS),
    ],
)
def test_ranks_make_whole_replicas(folder: Path, settings: dict[str, int], place: str, message: Message) -> None:  # noqa: F811
    change(folder, BENCHMARK, "model.conv_layers", 2)
    with wrong_setting(place, message):
        load(folder, **settings)


def test_each_pool_needs_an_even_number_of_planes_and_rows(folder: Path) -> None:  # noqa: F811
    edge = load(folder, 1).benchmarks["cosmoflow_tiny"].data.edge
    pools = edge.bit_length() - 2  # leaves 2 planes of the whole cube
    change(folder, BENCHMARK, "model.conv_layers", pools)
    load(folder, 2)
    (plan,) = load(folder, 4).plans().values()
    assert plan.benchmark.part_grid(4) == (2, 2)
    with wrong_setting("spatial_parts", ODD_PLANES, found="8", most=4, edge=edge, pools=pools):
        load(folder, 8, ranks=8)


def test_a_node_that_holds_samples_of_its_own_has_whole_replicas(folder: Path) -> None:  # noqa: F811
    change(folder, BENCHMARK, "model.conv_layers", 2)
    change(folder, BENCHMARK, "staging.partition", "split")
    with wrong_setting("spatial_parts", PARTS_OF_NODE, ranks=2):
        load(folder, 4, ranks=2, nodes=2)


@pytest.mark.parametrize("workload", ["deepcam", "opencatalyst", "extreme_weather", "resnet50"])
def test_other_benchmarks_refuse_it(folder: Path, workload: str) -> None:  # noqa: F811
    name = f"{workload}_tiny"
    change(folder, STUDY, "benchmarks", [name])
    (folder / "runs/default.tsv").write_text(f"{COLUMNS}\n{name}\tfp32\t1\t2\t1\tfp32\tnone\t\t1\t2\n")
    with wrong_setting("spatial_parts", WHOLE_SAMPLES, found="2"):
        load_study_file(folder / STUDY)


def test_cubes_are_cut_along_the_depth_first_and_then_along_rows(folder: Path) -> None:  # noqa: F811
    """Part p is at (p // rows, p % rows)."""
    change(folder, BENCHMARK, "model.conv_layers", 2)
    benchmark = load(folder, 1).benchmarks["cosmoflow_tiny"]
    assert [benchmark.part_grid(parts) for parts in (1, 2, 4, 8, 16)] == [(1, 1), (2, 1), (4, 1), (4, 2), (4, 4)]
    grid = benchmark.part_grid(8)
    assert grid.neighbours(1) == [(0, 2), (1, 3), (2, 4), (3, 5), (4, 6), (5, 7)]
    assert grid.neighbours(2) == [(0, 1), (2, 3), (4, 5), (6, 7)]


def test_groups_are_neighbours() -> None:
    point = {"benchmark": "a", "variant": "a", "nodes": 2, "ranks_per_node": 4}
    assert rank_groups(Point(**point)) == []
    assert rank_groups(Point(**point, spatial_parts=4)) == [range(4), range(4, 8)]
    assert rank_groups(Point(**point, batchnorm_group=2)) == [range(first, first + 2) for first in (0, 2, 4, 6)]
