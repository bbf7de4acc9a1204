"""The nodes' view of a dataset that is split among them."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import MagicMock

import numpy as np
import pytest
from unit.refusals import refused
from unit.workloads.image_classification.training.image_plans import image_plan

from hpcai.config.benchmark import Split, StagingSettings
from hpcai.config.runs import RunPlan
from hpcai.core.errors import DatasetError
from hpcai.core.sealed import sealed_json
from hpcai.data.pack import OTHER_DATASET, pack_dataset
from hpcai.data.prepare import MANIFEST, prepare_dataset
from hpcai.data.registry import data_module
from hpcai.data.stage import preflight, stage_shards
from hpcai.data.stage_folder import own_stage
from hpcai.training import loop
from hpcai.training.collectives.base import Ranks
from hpcai.training.dataset import Dataset, Sources
from hpcai.training.input import OTHER_LENGTH, Reading, Schedule, epoch_order, evaluation_batches, train_batches
from hpcai.training.loop import Outputs, Training
from hpcai.training.registry import workload_of
from hpcai.training.workload import seed_streams

NODES = 2
TRAIN, VALIDATION = 30, 14  # in 3 and 2 files: the nodes share the third training file


def split_plan(ranks: int = NODES, partition: str = "split") -> RunPlan:
    data = {"train_samples": TRAIN, "validation_samples": VALIDATION, "train_shards": 3, "validation_shards": 2}
    point = {"nodes": NODES, "ranks_per_node": ranks // NODES}
    staging = {"partition": partition}
    return image_plan(data=data, point=point, staging=staging, recipe={"global_batch": 8})


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> list[Dataset]:
    """Both nodes' view of a staged dataset, one rank each."""
    folder, plan = tmp_path_factory.mktemp("nodes"), split_plan()
    benchmark = plan.benchmark
    module = data_module(benchmark.workload, benchmark.data)
    manifest = prepare_dataset(benchmark.workload, module, folder / "data", folder / "none.tsv")
    packed = pack_dataset(manifest, module, folder / "data", benchmark.pack, folder / "packed")
    found = []
    for node in range(NODES):
        scratch = folder / f"node{node}"
        preflight(packed, own_stage(scratch), node, NODES, "split")
        stage_shards(packed, folder / "packed", own_stage(scratch), 0, 1, node, NODES, "split", 1)
        sources = Sources(folder / "data/manifest.json", folder / "packed/packed.json", scratch)
        found.append(Dataset(plan, Ranks(node, NODES, 0, 1, node, NODES), sources, threads=1))
    return found


def pixels(nodes: list[Dataset], split: Split) -> list[list[float]]:
    """Return a number that identifies each image, for every sample that a node sees in one epoch."""
    plan = split_plan()
    workload = workload_of(plan)
    # As in evaluation, so that a sample looks the same each time.
    reading = Reading(lambda record, _: workload.parse(record, None), workload.collate, plan.micro_batch, 1)
    schedule = Schedule(1, 1, plan.epoch_steps * plan.local_batch)
    seen = []
    for node in nodes:
        samples = node.samples(split)
        if split == "train":
            batches = ((images, np.ones(len(images))) for images, _ in train_batches(samples, reading, schedule))
        else:
            batches = ((images, weights.numpy()) for images, _, weights in evaluation_batches(samples, reading))
        seen.append([float(image) for images, weights in batches for image in np.sum(images, (1, 2, 3))[weights > 0]])
    return seen


def test_every_validation_sample_is_evaluated_once(nodes: list[Dataset]) -> None:
    seen = pixels(nodes, "validation")
    assert [len(numbers) for numbers in seen] == [7, 7]
    assert len({number for numbers in seen for number in numbers}) == VALIDATION


def test_nodes_that_share_a_file_hold_equally_many_samples(nodes: list[Dataset]) -> None:
    """The last file has samples of both: each draws its own only, and none twice in an epoch."""
    own = [node.samples("train") for node in nodes]
    assert [len(samples) for samples in own] == [15, 15]
    names = [[path.name for path in samples.paths] for samples in own]
    assert [len(some) for some in names] == [2, 2]
    assert len(set(names[0]) & set(names[1])) == 1
    places = [
        (names[node][file], offset)
        for node, samples in enumerate(own)
        for file, offset in zip(samples.file.tolist(), samples.offset_bytes.tolist(), strict=True)
    ]
    assert len(set(places)) == TRAIN
    seen = pixels(nodes, "train")
    assert [len(set(numbers)) for numbers in seen] == [12, 12]
    assert not set(seen[0]) & set(seen[1])


def test_staged_files_are_looked_at_before_training(nodes: list[Dataset], tmp_path: Path) -> None:
    staged = nodes[0].samples("validation")
    staged.require()
    moved = replace(staged, paths=[tmp_path / path.name for path in staged.paths])
    for path, copy in zip(staged.paths, moved.paths, strict=True):
        copy.write_bytes(path.read_bytes()[:-1])
    with refused(DatasetError, OTHER_LENGTH):
        moved.require()


def test_files_in_place_are_compared_with_their_manifest(nodes: list[Dataset], tmp_path: Path) -> None:
    """TensorFlow reads a cut file without an error; the run would have the digest of other data."""
    sources, folder = nodes[0]._sources, tmp_path / "data"
    shutil.copytree(sources.manifest.parent, folder)
    plan = split_plan()
    in_place = plan.model_copy(
        update={"benchmark": plan.benchmark.model_copy(update={"staging": StagingSettings(place="none")})}
    )
    dataset = Dataset(in_place, Ranks(0, 1, 0, 1, 0, 1), Sources(folder / MANIFEST, None, tmp_path), threads=1)
    dataset.samples("train").require()
    assert not dataset.samples("train").staged
    last = dataset.samples("train").paths[-1]
    last.write_bytes(last.read_bytes() + b"x")
    with refused(DatasetError, OTHER_LENGTH, place=str(last)):
        dataset.samples("train").require()


def seeds_of_ranks(nodes: list[Dataset], partition: str, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the seeds by which the loop orders and augments the training samples, of two ranks on each node."""
    plan, found = split_plan(2 * NODES, partition), []
    monkeypatch.setattr(loop, "steps_of", lambda _: SimpleNamespace(Engine=MagicMock()))
    monkeypatch.setattr(loop, "train_batches", lambda *given: found.append(given[2].seed))
    for rank in range(2 * NODES):
        node, local_rank = divmod(rank, 2)
        place = Ranks(rank, 2 * NODES, local_rank, 2, node, NODES)
        dataset = Dataset(plan, place, nodes[node]._sources, threads=1)
        outputs = Outputs(journal=MagicMock(), log=MagicMock(), profiler=MagicMock())
        Training(workload_of(plan), place, dataset, outputs)._initialise()
    return found


def test_each_node_draws_its_part_in_an_order_of_its_own(nodes: list[Dataset], monkeypatch: pytest.MonkeyPatch) -> None:
    """What lies at one place of all parts are neighbours of the dataset: they must not meet in a batch each epoch."""
    first, second, third, fourth = seeds_of_ranks(nodes, "split", monkeypatch)
    alone = seed_streams(split_plan().seed or 0, 0).order
    assert first == second == alone
    assert third == fourth != first
    assert (epoch_order(first, 1, 20).numpy() != epoch_order(third, 1, 20).numpy()).any()
    assert seeds_of_ranks(nodes, "whole", monkeypatch) == [alone] * 2 * NODES


def test_a_pack_of_other_data_is_refused(nodes: list[Dataset], tmp_path: Path) -> None:
    sources = nodes[0]._sources
    manifest = tmp_path / "manifest.json"
    other = {**json.loads(sources.manifest.read_text()), "dataset": "other"}
    del other["content_sha256"]
    manifest.write_bytes(sealed_json(other))
    with refused(DatasetError, OTHER_DATASET):
        Dataset(split_plan(), Ranks(0, 2, 0, 1, 0, 2), Sources(manifest, sources.pack, tmp_path), threads=1)
