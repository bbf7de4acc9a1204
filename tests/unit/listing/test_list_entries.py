import json
import math
import shutil
from datetime import date
from pathlib import Path

import pandas as pd
import pytest
from unit.listing.list_factory import pack, write_declared, write_results
from unit.mlperf_hpc.log_factory import log_text, write_tree
from unit.mlperf_hpc.submission.result_factory import INSTANCES, write_group
from unit.record_factory import make_image_benchmark, make_machine, make_record
from unit.refusals import refused

from hpcai.catalogue.points import POINT
from hpcai.catalogue.tables import columns_of
from hpcai.core.errors import RecordError
from hpcai.core.table_files import read_parquet, write_parquet
from hpcai.listing import declared, own
from hpcai.listing.content import BOUNDS, number_from
from hpcai.listing.data_files import list_schema
from hpcai.listing.declared import read_declared
from hpcai.listing.entries import make_id
from hpcai.listing.own import read_own
from hpcai.listing.own_records import machine_of
from hpcai.listing.packages import make_submission, read_source, read_submission, write_package, write_repository
from hpcai.listing.rounds import read_round_source
from hpcai.listing.sources import UNKNOWN, Source, digest_files, find_sources, kind_of, list_files
from hpcai.metrics.reproducibility import FULL, MEASURED
from hpcai.mlperf_hpc.analysis.system_families import name_family
from hpcai.records.files import DISCARDED, read_part, write_json
from hpcai.records.weak import GROUP, WeakGroup

TODAY = date(2100, 1, 1)


def files_of(path: Path):
    return {file.path: file for file in digest_files(path, list_files(path))}


@pytest.fixture
def results(tmp_path) -> Path:
    """A results folder with records and their scores, without work of a sample."""
    return write_results(tmp_path / "results")


def test_entries_of_own_runs_follow_from_their_records(results):
    content = read_own(results, "study", files_of(results), TODAY, "results")
    runs = read_parquet(results / "tables" / "runs.parquet")
    assert len(content.entries) == 2
    for entry in content.entries:
        own = runs[runs["ranks"] == dict(entry.settings)["ranks_per_node"]]
        rate = own["train_rate_samples_per_s"].median()
        assert entry.number("train_rate_samples_per_s").value == pytest.approx(rate)
        assert entry.basis == "measured"
        assert len(entry.runs) == 2


@pytest.mark.parametrize(
    ("accelerators", "expected"),
    [
        (0, [1, 1]),  # nodes: how many ranks share a processor is a choice
        (1, [1, 1]),  # two ranks share an accelerator
        (2, [1, 2]),
    ],
)
def test_units_are_accelerators_or_the_nodes_of_a_machine_without_them(tmp_path, accelerators, expected):
    device = {"kind": "gpu", "shared_by_ranks": True} if accelerators else {"kind": "cpu"}
    machine = make_machine(accelerators_per_node=accelerators, device=device)
    results = write_results(tmp_path / "results", machine=machine)
    entries = read_own(results, "study", files_of(results), TODAY, "results").entries
    by_ranks = {dict(entry.settings)["ranks_per_node"]: entry.units for entry in entries}
    assert [by_ranks[ranks] for ranks in (1, 2)] == expected
    for entry in entries:
        assert entry.per_unit == entry.number("train_rate_samples_per_s").value / entry.units
        assert entry.unit == ("accelerator" if accelerators else "node")
    assert {entry.scale for entry in entries} == {"n1x1", "n1x2"}


@pytest.mark.parametrize("accelerators", [0, 1])
def test_a_processor_is_no_accelerator_of_its_machine(tmp_path, accelerators):
    device = {"kind": "gpu", "shared_by_ranks": True} if accelerators else {"kind": "cpu"}
    machine = make_machine(accelerators_per_node=accelerators, device=device)
    facts = {"accelerators": "GPU 9", "cpu_model": "CPU 7"}
    record = make_record(machine=machine)
    record = record.model_copy(update={"provenance": record.provenance.model_copy(update={"machine_facts": facts})})
    found = machine_of(record, "org")
    assert (found.accelerator, found.processor) == ("GPU 9" if accelerators else "", "CPU 7")
    assert found.family == name_family("GPU 9" if accelerators else "CPU 7")


def test_a_declared_result_without_a_device_counts_processes(tmp_path):
    source = write_declared(tmp_path)
    text = source.read_text().replace("device: V100, nodes: 8, devices_per_node: 8", "nodes: 8")
    bare = tmp_path / "bare.yaml"
    bare.write_text(text.replace("name: paper", "name: bare"))
    units = [read_declared(path, "x", files_of(tmp_path), TODAY, "").entries[0].unit for path in (source, bare)]
    assert units == ["accelerator", "process"]


@pytest.mark.parametrize(("n", "is_interval"), [(4, False), (5, True), (None, True)])
def test_the_bounds_of_few_runs_are_their_range_and_no_interval(n, is_interval):
    name = "train_rate_samples_per_s"
    row = {name: 2.0, **dict(zip(BOUNDS[name], (1.0, 3.0), strict=True))}
    found = number_from(row, name, "scores", "m", n)
    assert (found.low, found.high) == ((1.0, 3.0) if is_interval else (None, None))
    assert (found.least, found.most) == ((None, None) if is_interval else (1.0, 3.0))
    assert bool(found.interval) == is_interval


def test_units_of_a_group_are_counted_as_those_of_a_run(results):
    folder = write_group(results)
    group = read_part(WeakGroup, folder / GROUP)
    extent = group.whole_extent.model_copy(update={"nodes": 2, "ranks": INSTANCES})
    write_json(group.model_copy(update={"whole_extent": extent}), folder / GROUP)
    content = read_own(results, "study", files_of(results), TODAY, "results")
    (entry,) = [one for one in content.entries if one.scaling == "weak"]
    assert (entry.nodes, entry.units) == (2, 2)


def test_units_of_a_declared_result_are_no_more_than_its_devices(tmp_path):
    source = write_declared(tmp_path)
    few = tmp_path / "few.yaml"
    text = source.read_text().replace("devices_per_node: 8", "devices_per_node: 4")
    few.write_text(text.replace("name: paper", "name: few"))
    units = [read_declared(path, "x", files_of(tmp_path), TODAY, "").entries[0].units for path in (source, few)]
    assert units == [64, 32]


def test_a_score_that_does_not_follow_from_the_records_is_refused(results):
    file = results / "tables" / "run_scores.parquet"
    scores = read_parquet(file)
    write_parquet(scores.assign(train_rate_samples_per_s=scores["train_rate_samples_per_s"] * 1.001), file)
    with refused(RecordError, own.OTHER_NUMBERS, column="train_rate_samples_per_s"):
        read_own(results, "study", files_of(results), TODAY, "results")


def test_scores_of_other_runs_are_refused(results):
    file = results / "tables" / "run_scores.parquet"
    write_parquet(read_parquet(file).iloc[1:], file)
    with refused(RecordError, own.OTHER_RUNS):
        read_own(results, "study", files_of(results), TODAY, "results")


def test_a_round_gives_one_entry_per_result_with_its_logs_as_evidence(tmp_path):
    write_tree(tmp_path / "v3.0", logs=[log_text() for _ in range(10)])
    files = files_of(tmp_path / "v3.0")
    content = read_round_source(tmp_path / "v3.0", "round", files, TODAY)
    (entry,) = content.entries
    assert (entry.basis, entry.organisation, entry.scaling, len(entry.runs)) == ("published", "ORG", "strong", 10)
    assert {file.path for file in entry.evidence} == set(files)
    assert entry.verdict.status in ("valid", "not valid")
    assert content.machines[0].id == entry.machine


def test_identifiers_are_stable_and_safe():
    assert make_id("A b", "C/../d") == make_id("A b", "C/../d")
    assert make_id("a") != make_id("A")
    assert set(make_id("é<script>", "\u202e" * 300)) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
    assert len(make_id("x" * 500)) <= 100


def test_a_package_is_what_the_list_accepts_and_tells_its_size(tmp_path):
    source = write_declared(tmp_path)
    submission = make_submission(source, name="mine", organisation="Org", embargo=None, license_name="CC0")
    package = write_package(source, tmp_path / "mine", submission)
    assert (package.files, package.bytes) == (1, source.stat().st_size)
    assert kind_of(tmp_path / "mine") == "package"
    assert read_submission(tmp_path / "mine" / "submission.yaml") == submission


def test_a_package_of_a_study_keeps_its_groups_and_what_it_says_of_its_machine(results, tmp_path):
    write_group(results)
    write_overview(results)
    whole = read_own(results, "study", files_of(results), TODAY, "results")
    pack(results, tmp_path / "in")
    packed = read_source(Source("results", "package", tmp_path / "in" / "results"), TODAY)
    assert [one.scaling for one in packed.entries] == [one.scaling for one in whole.entries]
    assert packed.machines[0].numbers == whole.machines[0].numbers != ()


def put_aside(folder: Path) -> None:
    """Leave a copy of a run or group where `hpcai discard` moves it; the folder itself is the one measured again."""
    shutil.copytree(folder, folder.parent / DISCARDED / f"{folder.name}-20260101T000000Z")


def test_what_was_set_aside_is_neither_listed_nor_packed(results, tmp_path):
    group = write_group(results)
    before = read_own(results, "study", files_of(results), TODAY, "results")
    put_aside(group)
    put_aside(next((results / "runs").rglob("record.json")).parent)
    after = read_own(results, "study", files_of(results), TODAY, "results")
    packed = pack(results, tmp_path / "in")
    assert (after.refused, [one.id for one in after.entries]) == ((), [one.id for one in before.entries])
    assert not [path for path in packed.rglob("*") if DISCARDED in path.parts]


def test_nothing_without_a_result_becomes_a_package(tmp_path):
    (tmp_path / "empty" / "runs").mkdir(parents=True)
    submission = make_submission(tmp_path / "empty", name="mine", organisation="O", embargo=None, license_name="CC0")
    with refused(RecordError, own.NO_RECORDS):
        write_package(tmp_path / "empty", tmp_path / "mine", submission)
    assert not (tmp_path / "mine").exists()


def test_a_repository_has_a_workflow_that_builds_strictly(tmp_path):
    write_repository(tmp_path / "list")
    workflow = (tmp_path / "list" / ".github" / "workflows" / "list.yml").read_text()
    assert "hpcai list build submissions" in workflow
    assert "--strict" in workflow


def test_a_new_repository_has_an_empty_list_also_in_a_clone(tmp_path):
    write_repository(tmp_path / "list")
    kept = [path for path in (tmp_path / "list").rglob("*") if path.is_file()]
    for path in kept:  # git keeps no empty folder
        clone = tmp_path / "clone" / path.relative_to(tmp_path / "list")
        clone.parent.mkdir(parents=True, exist_ok=True)
        clone.write_bytes(path.read_bytes())
    assert find_sources([tmp_path / "clone" / "submissions"]) == ([], [])


def test_a_folder_without_anything_and_a_submission_with_a_text_alone_are_refused(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "in" / "package").mkdir(parents=True)
    (tmp_path / "in" / "package" / "README.md").touch()
    found, refused = find_sources([tmp_path / "empty", tmp_path / "in"])
    assert (found, [one.reasons[0].code for one in refused]) == ([], [UNKNOWN.code, UNKNOWN.code])


def test_the_schema_describes_every_field_of_an_entry():
    properties = list_schema()["$defs"]["Entry"]["properties"]
    assert json.dumps(properties)
    assert {"id", "numbers", "verdict", "evidence", "reproducibility"} <= set(properties)


def test_own_entries_have_a_reproducibility_score_with_what_would_raise_it(results):
    content = read_own(results, "study", files_of(results), TODAY, "results")
    for entry in content.entries:
        found = entry.reproducibility
        assert found.score == sum(check.points for check in found.checks) == entry.number("reproducibility_score").value
        assert sum(check.most for check in found.checks) == FULL
        assert all(check.met == (not check.reason) for check in found.checks)
        assert entry.no_reproducibility == ""


def test_measured_power_counts_also_if_the_first_run_has_no_score(results):
    file = results / "tables" / "run_scores.parquet"
    scores = read_parquet(file)
    later = ~scores["run_id"].str.endswith("/r1")
    methods = scores["power_method"].where(~later, MEASURED)
    write_parquet(scores.assign(power_method=methods, mean_power_w=later.map({True: 100.0, False: math.nan})), file)
    for entry in read_own(results, "study", files_of(results), TODAY, "results").entries:
        assert {check.name: check.met for check in entry.reproducibility.checks}["power"]


def test_what_has_no_records_says_why_it_has_no_score(tmp_path):
    file = write_declared(tmp_path)
    (entry,) = read_declared(file, "paper", files_of(file), TODAY, "Org").entries
    assert (entry.reproducibility, entry.no_reproducibility) == (None, declared.NO_SCORE())


@pytest.mark.parametrize(("samples", "title"), [(524_288, "(MLPerf HPC)"), (262_144, "(MLPerf HPC v0.7)")])
def test_editions_of_a_benchmark_have_titles(tmp_path, samples, title):
    write_tree(tmp_path / "v3.0", logs=[log_text(train_samples=samples) for _ in range(10)])
    (entry,) = read_round_source(tmp_path / "v3.0", "round", files_of(tmp_path / "v3.0"), TODAY).entries
    assert entry.benchmark_title == f"CosmoFlow {title}"
    assert entry.title.startswith(entry.benchmark_title)


def test_a_time_to_train_has_the_spread_of_its_runs_and_no_interval(tmp_path):
    write_tree(tmp_path / "v3.0", logs=[log_text(epochs=20 + number) for number in range(10)])
    (entry,) = read_round_source(tmp_path / "v3.0", "round", files_of(tmp_path / "v3.0"), TODAY).entries
    time, runs = entry.number("time_to_train_s"), [run.time_s for run in entry.runs]
    assert (time.low, time.high) == (None, None)
    assert (time.least, time.most) == (min(runs), max(runs))
    assert time.least < time.value < time.most


def test_a_weak_scaling_group_of_own_runs_is_an_entry_as_those_of_rounds(results):
    folder = write_group(results)
    group = read_part(WeakGroup, folder / GROUP)
    content = read_own(results, "study", files_of(results), TODAY, "results")
    (entry,) = [one for one in content.entries if one.scaling == "weak"]
    expected_s = max(one.run_stop_monotonic_s for one in group.results)
    assert entry.number("time_to_train_all_s").value >= expected_s
    assert entry.number("models_per_min").value == pytest.approx(
        60 * group.counted / entry.number("time_to_train_all_s").value
    )
    assert [run.counted for run in entry.runs].count(False) == group.instances - group.counted == 1
    assert (entry.benchmark, entry.basis) == ("opencatalyst", "measured")
    assert f"weak/{group.group}/{GROUP}" in {file.path for file in entry.evidence}
    assert content.refused == ()


def test_a_group_of_a_suite_without_such_a_score_has_a_rate_and_no_verdict(results):
    folder = write_group(results)
    for number in range(1, INSTANCES + 1):
        plan = {"benchmark": make_image_benchmark(), "kind": "weak", "instances": INSTANCES}
        shutil.rmtree(folder / f"i{number}" / "raw")
        write_json(make_record(repetition=number, **plan), folder / f"i{number}" / "record.json")
    content = read_own(results, "study", files_of(results), TODAY, "results")
    (entry,) = [one for one in content.entries if one.scaling == "weak"]
    rates = [run.samples_per_s for run in entry.runs if run.counted]
    assert entry.verdict.status == "not judged"
    assert entry.number("train_rate_samples_per_s").value == pytest.approx(sum(rates))
    assert entry.number("models_per_min") is None


OVERVIEW = {
    "list": ["TOP500", "STREAM", "Green500", "HPC AI500"],
    "quantity": ["rate", "memory bandwidth", "energy efficiency", "VFLOPS"],
    "what": ["HPL", "copy", "HPL", "resnet50_tiny"],
    "value": [1.5e12, 2.5e10, float("nan"), 1e11],
    "unit": ["FLOP/s", "B/s", "FLOP/J", "FLOP/s"],
    "n": [3.0, 5.0, float("nan"), 2.0],
}


def write_overview(results: Path) -> None:
    columns = columns_of("machine_overview")
    blank = dict.fromkeys([name for name in columns if name not in OVERVIEW], "x")
    table = pd.DataFrame({**blank, **OVERVIEW})[[*columns]]
    write_parquet(table, results / "tables" / "machine_overview.parquet")


def test_a_machine_has_the_numbers_of_its_study_that_are_no_results(results):
    write_overview(results)
    (machine,) = read_own(results, "study", files_of(results), TODAY, "results").machines
    found = {number.quantity: (number.value, number.unit, number.n) for number in machine.numbers}
    assert found == {
        "rate_hpl_flop_per_s": (1.5e12, "FLOP/s", 3),
        "memory_bandwidth_copy_bytes_per_s": (2.5e10, "B/s", 5),
    }
    assert all(number.method and number.source for number in machine.numbers)
    assert [one.title for one in machine.not_measured] == ["Energy efficiency, HPL"]


def test_predictions_of_measured_scales_stand_beside_what_was_measured(results):
    content = read_own(results, "study", files_of(results), TODAY, "results")
    entry = content.entries[0]
    runs = read_parquet(results / "tables" / "runs.parquet")
    point = runs[runs["ranks"] == dict(entry.settings)["ranks_per_node"]].iloc[0]
    row = dict.fromkeys(columns_of("prediction_accuracy"), "x") | {name: point[name] for name in POINT}
    row |= {"predicted_step_s": 0.2, "measured_step_s": 0.25, "used_for_interval": True}
    rows = [row, row | {"used_for_interval": False, "predicted_step_s": 9.0}]
    write_parquet(pd.DataFrame(rows), results / "tables" / "prediction_accuracy.parquet")
    (found,) = read_own(results, "study", files_of(results), TODAY, "results").predictions
    assert (found.entry, found.number.value, found.measured.value) == (entry.id, 0.2, 0.25)
