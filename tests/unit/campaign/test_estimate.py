"""The estimate before the start: counted jobs, declared bounds, measured expectations, and unknowns."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from unit.record_factory import make_provenance, make_rank, make_record, write_records
from unit.refusals import told

from hpcai.campaign import estimate as estimate_module
from hpcai.campaign.estimate import RUN_FILES, TOO_LARGE, TOO_WIDE, Estimate, Places, estimate_campaign
from hpcai.campaign.estimate_data import Amount, DatasetEstimate
from hpcai.campaign.estimate_jobs import schedule_s
from hpcai.campaign.estimate_text import say_estimate
from hpcai.cli.main import call
from hpcai.config.load import load_study_file
from hpcai.config.plans import Campaign
from hpcai.config.runs import RunPlan
from hpcai.core.errors import ConfigError
from hpcai.data.pack import pack_dataset
from hpcai.data.prepare import prepare_dataset
from hpcai.data.registry import data_module
from hpcai.measure.allocation_use import write_allocation
from hpcai.measure.attempts import attempt_name, open_attempt
from hpcai.measure.publish import publish
from hpcai.measure.rank_files import gather_rank_files
from hpcai.records.files import write_json
from hpcai.training.journal import Journal, ResourceSampler

BENCHMARK = {
    "name": "small",
    "workload": "cosmoflow",
    "title": "A small one",
    "data": {"dataset": "cubes", "source": "generate", "train_samples": 64, "validation_samples": 16, "edge": 16},
    "pack": {"codec": "none", "shards": 4},
    "model": {"conv_layers": 2},
    "recipe": {"global_batch": 16},
    "target": {"value": 0.3},
}
MACHINE = {
    "name": "box", "title": "A cluster", "nodes": 8, "cores_per_node": 4, "memory_bytes": "8 GiB", "ranks_per_node": 4,
    "cores_per_rank": 1, "device": {"kind": "cpu"}, "storage": {"node_local": "/tmp/scratch"},
}  # fmt: skip
STUDY = {"name": "test", "title": "Test", "machine": "box", "benchmarks": ["small"], "limits": {"run_s": "30 min"}}
LONGEST_H = 2 * 0.5
"""Of a run, which is repeated once where it was disturbed."""
RUNS = "benchmark\tvariant\tnodes\tranks_per_node\trepeats\nsmall\tfp32\t1\t2\t3\nsmall\tfp32\t4\t2\t2\n"
WEAK = "benchmark\tvariant\tnodes\tranks_per_node\tinstances\nsmall\tfp32\t1\t2\t6\n"


def write_study(folder: Path, benchmark: dict[str, Any] | None = None, **study: Any) -> Path:
    for name, values in (("machines/box", MACHINE), ("benchmarks/small", {**BENCHMARK, **(benchmark or {})})):
        file = folder / f"{name}.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(yaml.safe_dump(values))
    (folder / "runs").mkdir(exist_ok=True)
    (folder / "runs" / "runs.tsv").write_text(RUNS)
    (folder / "runs" / "weak.tsv").write_text(WEAK)
    (folder / "study.yaml").write_text(yaml.safe_dump({**STUDY, **study}))
    return folder / "study.yaml"


def estimated(folder: Path, campaign: Campaign, like: tuple[Path, ...] = (), width: int | None = None) -> Estimate:
    places = Places(folder / "data", folder / "results", folder / "datasets.tsv")
    return estimate_campaign(campaign, places, like, width)


def record_of(plan: RunPlan, wall_s: float) -> Any:
    made = make_record(repetition=plan.repetition)
    facts = {"run_id": plan.run_id, "plan": plan, "plan_digest": plan.digest, "wall_s": wall_s, "verdicts": ()}
    ranks = tuple(make_rank(rank, plan) for rank in range(plan.point.ranks))
    return made.model_copy(update={**facts, "ranks": ranks})


def stages_of(estimate: Estimate) -> dict[str, Any]:
    return {one.stage: one for one in estimate.stages}


def test_jobs_are_counted_and_bounded_by_the_limit(tmp_path: Path) -> None:
    campaign = load_study_file(write_study(tmp_path / "config", weak_runs="weak"))
    estimate = estimated(tmp_path, campaign)
    stages = stages_of(estimate)
    assert {name: one.jobs for name, one in stages.items()} == {
        "data": 1, "pack": 1, "characterisation": 4 + 1 + 2, "predictions": 1,
        "timed runs": 5, "profiles": 5, "weak groups": 1,
    }  # fmt: skip
    runs = stages["timed runs"]
    assert runs.largest_nodes == 4
    assert runs.limit_node_hours.value == pytest.approx(LONGEST_H * (3 * 1 + 2 * 4))
    assert runs.limit_core_hours.value == pytest.approx(4 * LONGEST_H * (3 * 1 + 2 * 4))
    assert (runs.limit_node_hours.method, runs.expected_node_hours.value) == ("declared", None)
    # Two instances of two ranks fit on one node of four: six need three nodes at the same time.
    assert stages["weak groups"].largest_nodes == 3
    assert stages["data"].limit_node_hours.method == "not known"
    assert estimate.wall_times[0].limit_s.value == pytest.approx(3600 * LONGEST_H * 11)


@pytest.mark.parametrize("repeats", [0, 3])
def test_bounds_hold_for_runs_that_are_disturbed_and_repeated(tmp_path: Path, repeats: int) -> None:
    limits = {"run_s": "30 min", "disturbance": {"repeats": repeats}}
    estimate = estimated(tmp_path, load_study_file(write_study(tmp_path / "config", limits=limits)))
    longest_s = 1800 * (1 + repeats)
    assert estimate.wall_times[0].limit_s.value == pytest.approx(longest_s * 10)
    assert stages_of(estimate)["timed runs"].limit_node_hours.value == pytest.approx(longest_s / 3600 * (3 + 2 * 4))
    assert ("repeated 3 times" in " ".join(say_estimate(estimate).split())) == (repeats == 3)


def test_what_predictions_measure_once_per_machine_is_counted(tmp_path: Path) -> None:
    asked = {"kernel_samples": 9, "reference_networks": ["small_cnn"], "hpl_tests": [{"order": 64, "block": 8}]}
    campaign = load_study_file(write_study(tmp_path / "config", predict=asked))
    # Five families of kernels, the steps of the networks, rates and runs of HPL, and the layers of one benchmark.
    assert stages_of(estimated(tmp_path, campaign))["predictions"].jobs == 5 + 1 + 2 + 1
    files = campaign.study.predict.measured_files(campaign.machine.name)
    for file in files["kernel_times"]:
        (tmp_path / "results" / file).parent.mkdir(parents=True)
        (tmp_path / "results" / file).touch()
    assert stages_of(estimated(tmp_path, campaign))["predictions"].done == 5


def test_a_study_that_measures_nothing_has_no_runs(tmp_path: Path) -> None:
    campaign = load_study_file(write_study(tmp_path / "config", measure=False))
    assert set(stages_of(estimated(tmp_path, campaign))) == {"data", "pack"}


def test_expectations_come_from_equal_runs_alone(tmp_path: Path) -> None:
    campaign = load_study_file(write_study(tmp_path / "config"))
    plans = campaign.plans()
    first = [record_of(plans[f"small/fp32/n1x2/r{number}"], wall_s) for number, wall_s in ((1, 700.0), (2, 900.0))]
    write_records(first, tmp_path / "before" / "runs")
    stages = stages_of(estimated(tmp_path, campaign, (tmp_path / "before",)))
    runs = stages["timed runs"]
    # Three runs on one node at a median of 800 s; those on four nodes have no estimate.
    assert runs.expected_node_hours.value == pytest.approx(3 * 800 / 3600)
    assert (runs.known, runs.jobs, runs.equal_runs, runs.expected_node_hours.method) == (3, 5, 2, "modelled")
    assert stages["profiles"].expected_node_hours.value is None


def test_runs_with_other_settings_tell_nothing(tmp_path: Path) -> None:
    campaign = load_study_file(write_study(tmp_path / "config"))
    other = load_study_file(write_study(tmp_path / "other", {"model": {"conv_layers": 3}}))
    write_records([record_of(other.plans()["small/fp32/n1x2/r1"], 700.0)], tmp_path / "before" / "runs")
    estimate = estimated(tmp_path, campaign, (tmp_path / "before",))
    assert stages_of(estimate)["timed runs"].expected_node_hours.value is None


def test_what_the_machine_file_declared_later_leaves_earlier_runs_comparable(tmp_path: Path) -> None:
    campaign = load_study_file(write_study(tmp_path / "config"))
    before = write_study(tmp_path / "before/config")
    (before.parent / "machines/box.yaml").write_text(yaml.safe_dump({**MACHINE, "nodes": 6}))
    plan = load_study_file(before).plans()["small/fp32/n1x2/r1"]
    assert plan.digest != campaign.plans()[plan.run_id].digest
    write_records([record_of(plan, 700.0)], tmp_path / "before" / "runs")
    runs = stages_of(estimated(tmp_path, campaign, (tmp_path / "before",)))["timed runs"]
    assert runs.expected_node_hours.value == pytest.approx(3 * 700 / 3600)


def test_what_is_done_is_not_counted_again(tmp_path: Path) -> None:
    campaign = load_study_file(write_study(tmp_path / "config"))
    plans = campaign.plans()
    write_records([record_of(plans["small/fp32/n1x2/r1"], 700.0)], tmp_path / "results" / "runs")
    runs = stages_of(estimated(tmp_path, campaign))["timed runs"]
    assert (runs.done, runs.known) == (1, 2)
    assert runs.limit_node_hours.value == pytest.approx(LONGEST_H * (2 * 1 + 2 * 4))
    assert runs.expected_node_hours.value == pytest.approx(2 * 700 / 3600)


@pytest.mark.parametrize(
    ("jobs", "width", "expected_s"),
    [
        ([(10, 1), (10, 1), (10, 1)], 1, 30),
        ([(10, 1), (10, 1), (10, 1)], 2, 20),
        ([(10, 4), (10, 4), (10, 4)], 9, 20),
        ([(10, 8), (5, 1), (20, 1)], 9, 30),
        ([(5, 4), (30, 2), (10, 4)], 9, 30),
        ([], 4, 0),
    ],
)
def test_schedule_has_slots_and_nodes(jobs: list[tuple[float, int]], width: int, expected_s: float) -> None:
    assert schedule_s(jobs, width, 8) == expected_s


def prepare(campaign: Campaign, data: Path) -> None:
    benchmark = campaign.benchmarks["small"]
    folder = data / benchmark.data.dataset
    folder.mkdir(parents=True)
    module = data_module(benchmark.workload, benchmark.data)
    manifest = prepare_dataset(benchmark.workload, module, folder, data / "none.tsv")
    pack_dataset(manifest, module, folder, benchmark.pack, folder / "packed")


OTHERS = {
    "plain cubes": {"data": {**BENCHMARK["data"], "edition": "plain"}},  # type: ignore[dict-item]
    "gzip cubes": {},
    "frames": {
        "workload": "deepcam",
        "data": {
            "dataset": "frames", "source": "generate", "train_samples": 16, "validation_samples": 4, "height": 32,
            "width": 48,
        },
        "model": {},
    },
    "years": {
        "workload": "extreme_weather",
        "data": {
            "dataset": "years", "source": "generate", "train_samples": 16, "validation_samples": 4, "height": 64,
            "width": 96, "train_years": [1979, 1980], "validation_years": [1981],
        },
        "model": {},
    },
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_modelled_sizes_agree_with_real_data(tmp_path: Path, name: str) -> None:
    campaign = load_study_file(write_study(tmp_path / "config", OTHERS[name]))
    (modelled,) = estimated(tmp_path, campaign).datasets
    prepare(campaign, tmp_path / "data")
    (measured,) = estimated(tmp_path, campaign).datasets
    assert (modelled.ready, measured.ready, measured.packed) == (False, True, True)
    assert modelled.content_bytes.value == measured.content_bytes.value
    assert modelled.sample_files.value == measured.sample_files.value
    assert modelled.shard_files.value == measured.shard_files.value
    for planned, found in (
        (modelled.sample_bytes, measured.sample_bytes),
        (modelled.shard_bytes, measured.shard_bytes),
    ):
        assert planned.value is not None
        assert found.value is not None
        assert found.method == "measured"
        if planned.method == "upper bound":
            assert planned.value >= found.value
        else:
            assert planned.value == pytest.approx(found.value, rel=0.01)
    folder = tmp_path / "data" / modelled.name
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != ".lock"]
    created = (modelled.sample_files.value or 0) + (modelled.shard_files.value or 0)
    assert len(files) == created


def test_sizes_that_nobody_knows_are_not_zero(tmp_path: Path) -> None:
    images = {
        "workload": "image_classification",
        "data": {
            "dataset": "pictures", "source": "download", "archives": ["big"], "train_samples": 64,
            "validation_samples": 16, "train_shards": 4, "validation_shards": 2, "classes": 4, "crop": 32,
            "resize_edge": 40,
        },
        "model": {},
        "recipe": {"global_batch": 16, "warmup_epochs": 1},
    }  # fmt: skip
    campaign = load_study_file(write_study(tmp_path / "config", images))
    head = "dataset\tfile\turl\tbytes\tchecksum_algorithm\tchecksum\tformat\tnote\n"
    (tmp_path / "datasets.tsv").write_text(f"{head}big\tbig.tar\thttps://example.org/big.tar\t\t\t\ttar\t\n")
    estimate = estimated(tmp_path, campaign)
    (dataset,) = estimate.datasets
    unknown = (dataset.sample_bytes, dataset.archive_bytes, dataset.shard_bytes, dataset.content_bytes)
    assert [amount.value for amount in unknown] == [None] * 4
    assert {amount.method for amount in unknown} == {"not known"}
    assert "sizes are unknown" in "\n".join(estimate.warnings)
    (tmp_path / "datasets.tsv").write_text(f"{head}big\tbig.tar\thttps://example.org/big.tar\t1000\t\t\ttar\t\n")
    (declared,) = estimated(tmp_path, campaign).datasets
    assert (declared.archive_bytes.value, declared.archive_bytes.method) == (1000, "declared")


def test_archives_that_are_on_the_disk_need_no_more_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign = load_study_file(write_study(tmp_path / "config"))
    real, huge = estimate_module.estimate_dataset, Amount(2**60, "declared", "datasets.tsv")
    for is_there in (False, True):

        def with_archives(*arguments: Any, ready: bool = is_there) -> DatasetEstimate:
            return replace(real(*arguments), ready=ready, archive_bytes=huge)

        monkeypatch.setattr(estimate_module, "estimate_dataset", with_archives)
        codes = {getattr(warning, "code", "") for warning in estimated(tmp_path, campaign).warnings}
        assert (TOO_LARGE.code in codes) != is_there


def test_scratch_follows_the_partition_and_instances_side_by_side(tmp_path: Path) -> None:
    split = {"staging": {"place": "node_local", "partition": "split"}}
    content = estimated(tmp_path, load_study_file(write_study(tmp_path / "a"))).datasets[0].content_bytes.value
    assert content is not None
    ((_, whole),) = estimated(tmp_path, load_study_file(write_study(tmp_path / "a"))).scratch
    ((_, weak),) = estimated(tmp_path, load_study_file(write_study(tmp_path / "b", weak_runs="weak"))).scratch
    ((_, parted),) = estimated(tmp_path, load_study_file(write_study(tmp_path / "c", split))).scratch
    assert (whole.value, weak.value, parted.value) == (content, 2 * content, content)


def test_files_of_a_real_run_are_those_that_are_counted(tmp_path: Path) -> None:
    campaign = load_study_file(write_study(tmp_path / "config"))
    plan = campaign.plans()["small/fp32/n1x2/r1"]
    folder = tmp_path / "results" / "runs" / plan.run_id
    folder.mkdir(parents=True)
    (folder / "plan.json").write_text("{}")
    attempt, plan = open_attempt(folder, plan, attempt_name())
    write_allocation(attempt)
    Journal(attempt, active=True)
    for rank in range(2):
        with ResourceSampler(attempt / f"resources_rank{rank}.csv"):
            write_json(make_rank(rank, plan), attempt / "ranks" / f"rank{rank}.json")
    for name in ("mllog.txt", "nodes.json", "training.json", "output.log"):
        (attempt / name).touch()
    gather_rank_files(attempt)
    record = record_of(plan, 1000.0).model_copy(update={"attempt": attempt.name, "provenance": make_provenance()})
    publish(attempt, folder, record)
    found = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert found == set(RUN_FILES)
    assert len(RUN_FILES) <= 16
    counted = {one.cause: one.files.value for one in estimated(tmp_path, campaign).files}
    assert counted["timed runs"] == 4 * len(found)


def run_command(*words: str) -> int:
    return call(["estimate", *words])


def test_command_prints_and_writes_with_methods(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study, file = write_study(tmp_path / "config", weak_runs="weak"), tmp_path / "estimate.json"
    places = ["--data", str(tmp_path / "data"), "--results", str(tmp_path / "results")]
    assert run_command(str(study), *places, "--jobs", "16", "--json", str(file)) == 0
    said = capsys.readouterr().out
    assert max(map(len, said.splitlines())) <= 100
    assert "not known" in said
    assert told(said, TOO_WIDE) == {"fit": "2", "width": "16", "largest": "4", "nodes": "8"}
    written = json.loads(file.read_text())
    assert written["datasets"][0]["content_bytes"]["method"] == "modelled"
    assert [one["width"] for one in written["wall_times"]] == [1, 16]


def test_full_storage_is_warned_of(tmp_path: Path) -> None:
    huge = {"data": {**BENCHMARK["data"], "train_samples": 2**34, "edge": 128}}  # type: ignore[dict-item]
    campaign = load_study_file(write_study(tmp_path / "config", huge))
    estimate = estimated(tmp_path, campaign)
    assert TOO_LARGE.code in {getattr(warning, "code", "") for warning in estimate.warnings}
    told(say_estimate(estimate), TOO_LARGE)


def test_missing_folder_of_earlier_results_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--like"):
        run_command(str(write_study(tmp_path)), "--like", str(tmp_path / "none"))
