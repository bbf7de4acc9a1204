"""Real ranks: the rank program under the launcher of each engine, on hand-written cubes of 16 voxels.

The samples are easy on purpose: the mean count of each channel tells one target, so that a small network gets below
the official error in seconds and the log of a closed run can be checked as a whole.
"""

import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
import pytest
from end_to_end.rank_runs import ENGINES, LIMIT_S, Prepared, Run, check_log
from unit.training.training_plans import make_plan
from unit.training.training_samples import write_sample

from hpcai.config.benchmark import PackSettings
from hpcai.config.runs import RunPlan
from hpcai.core.files import file_system_of
from hpcai.data.manifest import ManifestHeader, make_manifest, read_manifest, write_manifest
from hpcai.data.pack import pack_dataset
from hpcai.records.input_reads import COUNTED, Epoch, Passes, judge_input
from hpcai.records.input_window import ReadCounters
from hpcai.training.input import BAD_SAMPLE
from hpcai.training.journal import BEAT_S
from hpcai.workloads.cosmoflow.data.module import CosmoFlowDataModule
from hpcai.workloads.cosmoflow.settings import CosmoFlowData

TRAIN, VALIDATION = 64, 15
# For the first rank to come to the exchange that it waits in.
SETTLED_S = 1.0
MODEL = {"conv_layers": 4, "base_filters": 4, "dense": [16, 8]}
CURVE = {"model": MODEL, "recipe": {"global_batch": 8, "base_batch": 8, "base_learning_rate": 0.002, "max_epochs": 2}}


SETTINGS = {"dataset": "cubes", "source": "generate", "edition": "plain", "edge": 16}
MODULE = CosmoFlowDataModule(CosmoFlowData(**SETTINGS, train_samples=TRAIN, validation_samples=VALIDATION))


def write_cubes(folder: Path) -> Path:
    """Write the dataset; return its manifest."""
    rng = np.random.default_rng(11)
    for split, count in (("train", TRAIN), ("validation", VALIDATION)):
        for number in range(count):
            targets = rng.uniform(-0.6, 0.6, 4)
            counts = rng.poisson(2 * np.exp(targets), (16, 16, 16, 4))
            write_sample(folder / split / f"univ_ics_test_a0001_{number:03d}.tfrecord", counts, list(targets))
    facts = {"dataset": "cubes", "workload": "cosmoflow", "source": "existing", "edition": "plain"}
    header = ManifestHeader.model_validate({**facts, "sample_shape": (16, 16, 16, 4)})
    write_manifest(make_manifest(header, MODULE, folder, MODULE.find(folder)), folder / "manifest.json")
    return folder / "manifest.json"


def make_cubes(folder: Path) -> Prepared:
    manifest = write_cubes(folder / "cubes")
    pack_dataset(read_manifest(manifest), MODULE, manifest.parent, PackSettings(shards=3), manifest.parent / "packed")
    return Prepared(manifest, manifest.parent / "packed" / "packed.json", folder)


@pytest.fixture(scope="session")
def cubes(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return make_cubes(tmp_path_factory.mktemp("ranks"))


STAGED = {"place": "node_local", "partition": "whole"}


def small_plan(ranks: int, engine: str = "horovod", **changes: dict) -> RunPlan:
    data = {"train_samples": TRAIN, "validation_samples": VALIDATION}
    changes["point"] = {"engine": engine, **changes.get("point", {})}
    return make_plan(ranks, data=data, **{**CURVE, "target": {"value": 0.001}, **changes})


@pytest.fixture(scope="session", params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="session")
def one_rank(cubes: Prepared, engine: str) -> Run:
    return cubes.run(f"one_{engine}", small_plan(1, engine))


@pytest.fixture(scope="session")
def two_ranks(cubes: Prepared, engine: str) -> Run:
    return cubes.run(f"two_{engine}", small_plan(2, engine))


@pytest.fixture(scope="session")
def converged(cubes: Prepared, engine: str) -> Run:
    """Staging, mixed precision, half-precision gradients and dropout together, until the official target is reached."""
    recipe = {"global_batch": 8, "base_batch": 8, "base_learning_rate": 0.04, "warmup_epochs": 1, "max_epochs": 60}
    model = {"conv_layers": 4, "base_filters": 8, "dense": [32, 16], "dropout": 0.02}
    point = {"precision": "bf16", "compression": "fp16"}
    plan = small_plan(2, engine, model=model, recipe=recipe, point=point, target={"value": 0.124}, staging=STAGED)
    return cubes.run(f"converged_{engine}", plan)


def test_ranks_end_with_the_same_bits(two_ranks: Run, converged: Run) -> None:
    for run in (two_ranks, converged):
        assert run.exit_status == 0, run.output
        assert run.rank(0).weights_sha256 == run.rank(1).weights_sha256


def test_one_and_two_ranks_take_the_same_steps(one_rank: Run, two_ranks: Run) -> None:
    assert one_rank.exit_status == 0, one_rank.output
    assert len(one_rank.losses) == len(two_ranks.losses) == 2 * TRAIN // 8
    np.testing.assert_allclose(two_ranks.losses, one_rank.losses, rtol=1e-3)
    np.testing.assert_allclose(two_ranks.losses[:8], one_rank.losses[:8], rtol=1e-5)
    for one, two in zip(one_rank.report.epochs, two_ranks.report.epochs, strict=True):
        assert two.quality == pytest.approx(one.quality, rel=1e-3)
        assert one.evaluation_samples == two.evaluation_samples == VALIDATION


def test_accumulation_and_fusion_change_the_way_but_not_the_steps(cubes: Prepared, engine: str, two_ranks: Run) -> None:
    fusion = {"fusion_bytes": "1 KiB", "cycle_time_s": "0.5 ms"} if engine == "horovod" else {}
    run = cubes.run(f"options_{engine}", small_plan(2, engine, point={"accumulation": 2, **fusion}))
    assert run.exit_status == 0, run.output
    assert run.rank(0).weights_sha256 == run.rank(1).weights_sha256
    np.testing.assert_allclose(run.losses[:8], two_ranks.losses[:8], rtol=1e-5)
    np.testing.assert_allclose(run.losses, two_ranks.losses, rtol=1e-3)


def test_ranks_of_a_group_normalise_as_one_rank_with_all_samples() -> None:
    program = str(Path(__file__).with_name("group_norm_program.py"))
    launcher = [sys.executable, "-m", "hpcai.training.launch", "-np", "4", "--gloo"]
    done = subprocess.run([*launcher, sys.executable, program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("as one rank") == 4


def test_a_run_that_misses_its_target_has_not_converged(one_rank: Run) -> None:
    report = one_rank.report
    assert report.outcome == "not_converged"
    assert [epoch.epoch for epoch in report.epochs] == [1, 2]
    assert one_rank.log[-1]["metadata"]["status"] == "aborted"


def test_reports_agree_with_each_other(two_ranks: Run) -> None:
    report = two_ranks.report
    assert two_ranks.epochs == list(report.epochs)
    for epoch in report.epochs:
        assert epoch.samples == TRAIN
        assert epoch.train_s >= epoch.steps * (epoch.step_time_median_s or math.inf) / 2
    times = [epoch.train_s + (epoch.evaluation_s or 0) for epoch in report.epochs]
    assert sum(times) <= report.run_s <= two_ranks.wall_s
    assert report.import_s + report.init_s + report.run_s <= two_ranks.wall_s
    # Of the clock of a run: what is looked at behind it, as the machine's speed, is in neither.
    stamps = {line["key"]: line["time_ms"] for line in two_ranks.log}
    assert (stamps["run_stop"] - stamps["run_start"]) / 1000 == pytest.approx(report.run_s, abs=0.08)
    assert report.stalls is not None
    assert report.longest_gap_s is not None
    longest_s = max(epoch.step_time_max_s or math.inf for epoch in report.epochs)
    assert longest_s - 0.05 <= report.longest_gap_s <= report.run_s
    steps = pd.read_csv(two_ranks.raw / "steps.csv")
    assert len(steps) == sum(epoch.steps for epoch in report.epochs)
    assert report.step_time_median_s == pytest.approx(steps["step_time_s"].median())
    placements = [two_ranks.rank(number).placement for number in (0, 1)]
    assert [placement.local_rank for placement in placements] == [0, 1]
    if len(os.sched_getaffinity(0)) > 1:
        assert not set(placements[0].cores) & set(placements[1].cores)
    assert None not in [two_ranks.rank(number).page_faults_per_step for number in (0, 1)]
    assert (two_ranks.raw / "resources_rank1.csv").exists()
    assert (two_ranks.raw / "heartbeat").exists()


@pytest.mark.parametrize("rules", ["1.0.0", "2.0.0", "3.0.0"])
def test_the_log_of_a_converged_run_passes_mlperfs_checker(converged: Run, rules: str) -> None:
    assert converged.report.outcome == "converged", converged.output
    checked = check_log(converged.raw / "mllog.txt", rules)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "SUCCESS" in checked.stdout + checked.stderr


def test_the_checker_refuses_the_log_of_a_run_that_missed_the_target(one_rank: Run) -> None:
    assert check_log(one_rank.raw / "mllog.txt", "3.0.0").returncode != 0


def test_events_of_a_run_are_in_order(converged: Run) -> None:
    keys = [line["key"] for line in converged.log]
    first = [
        "init_start",
        "init_stop",
        "run_start",
        "epoch_start",
        "eval_start",
        "eval_stop",
        "eval_error",
        "epoch_stop",
    ]
    assert [keys.index(key) for key in first] == sorted(keys.index(key) for key in first)
    values = {line["key"]: line["value"] for line in converged.log}
    assert (values["train_samples"], values["eval_samples"], values["number_of_ranks"]) == (TRAIN, VALIDATION, 2)
    assert values["eval_error"] == converged.report.epochs[-1].quality


def test_a_diverged_run_ends_cleanly_and_says_so(cubes: Prepared, engine: str) -> None:
    run = cubes.run(f"diverged_{engine}", small_plan(2, engine, recipe={**CURVE["recipe"], "base_learning_rate": 1e30}))
    assert run.exit_status == 0, run.output
    report = run.report
    assert report.outcome == "diverged"
    assert "training loss" in report.reason
    assert not math.isfinite(report.epochs[-1].train_loss)
    assert report.epochs[-1].evaluation_s is None
    assert run.log[-1]["metadata"]["status"] == "aborted"
    assert run.epochs[-1].steps == len(run.losses) < TRAIN // 8


def test_a_profiled_run_ends_after_its_steps(cubes: Prepared, engine: str) -> None:
    run = cubes.run(f"profiled_{engine}", small_plan(1, engine, plan={"kind": "profiled", "max_steps": 10}))
    assert run.exit_status == 0, run.output
    assert run.report.outcome == "not_converged"
    assert "profiled run" in run.report.reason
    assert [epoch.steps for epoch in run.report.epochs] == [8, 2]


class Hits:
    """Stops rank 1 for a while and then kills it, while its run is under way; keeps what happened."""

    silent = went_on = False
    killed_s = math.inf

    def __call__(self, raw: Path, process: subprocess.Popen) -> None:
        wait_for(lambda: lines_of(raw / "epochs.jsonl"), raw, process)
        children = psutil.Process(process.pid).children(recursive=True)
        ranks = [one for one in children if one.name().startswith("python") and "hpcai.training" in one.cmdline()]
        victim = next(one for one in ranks if one.environ().get("HOROVOD_RANK") == "1")
        victim.suspend()
        time.sleep(SETTLED_S)
        before = (raw / "heartbeat").stat().st_mtime_ns
        time.sleep(2 * BEAT_S)
        self.silent = (raw / "heartbeat").stat().st_mtime_ns == before
        done = lines_of(raw / "epochs.jsonl")
        victim.resume()
        wait_for(lambda: lines_of(raw / "epochs.jsonl") > done, raw, process)
        self.went_on = True
        victim.kill()
        self.killed_s = time.monotonic()


def lines_of(file: Path) -> int:
    return file.read_text().count("\n") if file.exists() else 0


def wait_for(predicate: Callable[[], object], raw: Path, process: subprocess.Popen) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not predicate():
        assert time.monotonic() < deadline, (raw / "output.log").read_text()
        assert process.poll() is None, (raw / "output.log").read_text()
        time.sleep(0.05)


def test_a_stopped_rank_silences_the_first_and_a_killed_one_ends_the_run_in_bounded_time(
    cubes: Prepared, engine: str
) -> None:
    """What the supervisor makes of the silence: test_breakdowns.py."""
    hits = Hits()
    plan = small_plan(2, engine, recipe={**CURVE["recipe"], "max_epochs": 10_000})
    run = cubes.run(f"hit_{engine}", plan, meddle=hits)
    assert hits.silent
    assert hits.went_on
    assert run.exit_status != 0
    assert time.monotonic() - hits.killed_s < 60
    assert not (run.raw / "training.json").exists()
    assert run.epochs[0].epoch == 1


def test_staged_files_are_counted_and_removed(cubes: Prepared, engine: str, converged: Run) -> None:
    staging = converged.report.staging
    assert (staging.place, staging.on_clock, staging.files) == ("node_local", True, TRAIN + VALIDATION)
    assert staging.content_bytes > staging.packed_bytes > 0
    assert staging.compression_ratio == pytest.approx(staging.content_bytes / staging.packed_bytes)
    own = [converged.rank(number) for number in (0, 1)]
    assert sum(rank.staging_read_bytes for rank in own) == staging.packed_bytes
    assert max(rank.staging_s for rank in own) == staging.staging_s <= converged.report.run_s
    assert not cubes.staged(f"converged_{engine}")
    sizes = converged.report.input
    assert sizes.train_bytes + sizes.evaluation_bytes == staging.content_bytes
    assert all(rank.reads.called_bytes >= sizes.train_bytes // 2 for rank in own)


@pytest.mark.slow
def test_the_first_epoch_of_a_cold_dataset_comes_from_storage_and_the_second_from_memory(tmp_path: Path) -> None:
    if file_system_of(tmp_path) not in COUNTED or ReadCounters.of_this_process().storage_bytes is None:
        pytest.skip(f"reads of {file_system_of(tmp_path)} are not counted here")
    cubes = make_cubes(tmp_path)
    for path in cubes.manifest.parent.rglob("*.tfrecord"):
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    for name, first in (("cold", "storage, then a cache"), ("warm", "a cache")):
        run = cubes.run(name, small_plan(1))
        assert run.exit_status == 0, run.output
        epochs = [Epoch(one.samples, one.evaluation_s is not None) for one in run.report.epochs]
        found = judge_input(run.report.input, [run.rank(0).reads], Passes(epochs, TRAIN, 0))
        assert found.input_from == first
        assert found.is_cached
        assert 1.0 <= found.input_calls_ratio < 1.5
    stored = sum(path.stat().st_size for path in cubes.manifest.parent.rglob("train/*.tfrecord"))
    assert run.report.input.train_bytes == stored


def test_a_damaged_sample_ends_all_ranks_with_its_reason(tmp_path: Path, engine: str) -> None:
    cubes = make_cubes(tmp_path)
    flip_bit(cubes.manifest.parent / "train/univ_ics_test_a0001_003.tfrecord")
    run = cubes.run("damaged", small_plan(2, engine))
    assert run.exit_status != 0
    assert f"hpcai.core.errors.DatasetError: training: {BAD_SAMPLE.opening}" in run.output
    assert not (run.raw / "training.json").exists()


def test_a_damaged_shard_ends_all_ranks_with_its_reason_and_leaves_nothing(tmp_path: Path, engine: str) -> None:
    cubes = make_cubes(tmp_path)
    flip_bit(max(cubes.pack.parent.glob("train*.tar")))
    run = cubes.run("damaged", small_plan(2, engine, staging=STAGED))
    assert run.exit_status != 0
    assert "hpcai.core.errors.StagingError" in run.output
    assert "pack the dataset again" in run.output
    assert not (run.raw / "training.json").exists()
    assert not cubes.staged("damaged")


def flip_bit(path: Path) -> None:
    """Damage the middle of a file."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)
