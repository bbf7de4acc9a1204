"""The smallest study with real ranks, from its runs to the report, and what happens when it is called again.

Each engine makes it: Horovod's takes over what the study of all five measured, the others measure for themselves.
"""

import json
import re
import shutil
import stat
import subprocess
from pathlib import Path

import pandas as pd
import pytest
from end_to_end.rank_runs import ENGINES
from end_to_end.studies import engine_of, engine_study, table
from workflow_project import edit_yaml

from hpcai.catalogue.profiles import PROFILES
from hpcai.core.sealed import sealed_json
from hpcai.measure.publish import OTHER_SETTINGS
from hpcai.records.files import read_record

RUN = "results/runs/cosmoflow_mini/fp32/n1x2/r1"


OF_HOROVOD = pytest.mark.parametrize("study", ["horovod"], indirect=True)
"""What only Horovod tells, what the study of all five measured before, and what no engine changes."""
CAPTURED = {"horovod": ["timeline", "kernels"], "tensorflow": ["kernels"], "jax": []}
"""Profiles that each engine has on a processor."""


@pytest.fixture(scope="module", params=ENGINES)
def study(request, tmp_path_factory):
    if request.param == "horovod":
        return request.getfixturevalue("tiny_study")
    return engine_study(tmp_path_factory.mktemp(request.param), request.param)


def test_every_run_is_a_row_with_its_raw_file(study):
    runs = pd.read_parquet(study.directory / "results/tables/runs.parquet")
    assert list(runs["outcome"]) == ["converged"] * 3
    assert list(runs["ranks"]) == [1, 2, 2]
    assert runs["seed"].is_unique
    for path in runs["record_path"]:
        assert read_record(study.directory / path).outcome == "converged"


@OF_HOROVOD
def test_what_another_study_measured_is_not_measured_again(study):
    started = set(re.findall(r"^(?:local)?rule (\w+):", study.output, re.MULTILINE))
    assert "profile_run" in started  # of the kinds that nothing was captured of
    assert not started & {"prepare_data", "pack_data", "train", "count_work", "measure_ceiling", "measure_storage"}


def test_record_tells_where_its_numbers_come_from(study):
    record = read_record(study.directory / RUN / "record.json")
    raw = study.directory / RUN / "raw"
    for artefact in record.artefacts:
        assert (raw / artefact.path).stat().st_size == artefact.bytes
        assert not (raw / artefact.path).stat().st_mode & stat.S_IWUSR
    listed = {artefact.path for artefact in record.artefacts}
    assert {"mllog.txt", "steps.csv", "epochs.jsonl", "plan.json", "output.log", "training.json"} <= listed
    assert record.provenance.command[-1] in ("dropped", "not_permitted", "kept")
    assert record.provenance.lock_sha256
    assert record.provenance.machine_facts["cpu_model"]
    assert {rank.placement.rank for rank in record.ranks} == {0, 1}
    assert len({rank.weights_sha256 for rank in record.ranks}) == 1


def test_times_add_up(study):
    record = read_record(study.directory / RUN / "record.json")
    report = record.training
    inside = report.staging.staging_s + record.train_s + record.evaluation_s
    assert 0 < inside <= report.run_s <= record.wall_s
    assert report.staging.on_clock
    assert report.staging.compression_ratio > 1
    assert 0 < record.launch_s + report.import_s + report.init_s <= record.overhead_s + 0.01


@OF_HOROVOD
def test_profiled_run_is_another_run(study):
    folder = study.directory / "results/profiles/timeline/cosmoflow_mini/fp32/n1x2/r1"
    record = read_record(folder / "record.json")
    assert (record.plan.kind, record.outcome) == ("profiled", "not_converged")
    assert sum(epoch.steps for epoch in record.epochs) == record.plan.max_steps
    assert "NEGOTIATE_ALLREDUCE" in (folder / "raw/timeline.json").read_text()
    assert record.plan.seed not in pd.read_parquet(study.directory / "results/tables/runs.parquet")["seed"].to_list()


def test_every_profile_is_there_or_says_why_not(study):
    captures = table(study, "captures").set_index("profile")
    assert set(captures.index) == set(PROFILES)
    captured = CAPTURED[engine_of(study)]
    assert [name for name in ("timeline", "kernels") if captures.loc[name, "status"] == "measured"] == captured
    assert set(captures["status"]) <= {"measured", "not measured"}
    assert captures.loc[captures["status"] == "not measured", "reason"].str.len().gt(10).all()
    for profile in captured:
        for name in captures.loc[profile, "raw"].split(", "):
            assert (study.directory / name).exists()


@OF_HOROVOD
def test_the_exchange_of_gradients_is_explained(study):
    row = table(study, "communication").iloc[0]
    assert row["steps"] == 3
    # One group of float32 gradients and the loss, once per step.
    parameters = read_record(study.directory / RUN / "record.json").training.parameters
    assert row["bytes_per_step"] == 4 * (parameters + 1)
    assert row["batches"] == row["steps"]
    assert 0 < row["communication_share_ratio"] <= 1
    assert 0 <= row["overlap_ratio"] <= 1
    assert row["bus_bandwidth_bytes_per_s"] == pytest.approx(row["algorithm_bandwidth_bytes_per_s"])  # of two ranks
    lanes = table(study, "lanes")
    assert {"computation", "negotiation", "transfer"} <= set(lanes["lane"])


@pytest.mark.parametrize("study", ["horovod", *ENGINES[1:2]], indirect=True)
def test_kernels_have_shares_of_the_time(study):
    kernels = table(study, "kernels").set_index("category")
    assert kernels["share_ratio"].sum() == pytest.approx(1.0)
    assert {"convolution", "allreduce"} <= set(kernels.index)


def test_work_stands_on_counted_operations(study):
    work = table(study, "work").pivot_table(index="scale", columns="method", values="flop_per_sample")
    assert (work["hlo"] / work["formula"]).to_numpy() == pytest.approx(1.0, abs=0.01)
    assert (table(study, "work")["rate_flop_per_s"] > 0).all()


def test_ceilings_are_measured_with_their_spread(study):
    ceilings = table(study, "ceilings")
    assert {"gemm", "convolution", "memory", "storage_write", "allreduce"} <= set(ceilings["kind"])
    measured = ceilings.dropna(subset=["value"])
    assert (measured["value"] > 0).all()
    assert (measured["n"] >= 1).all()
    assert ceilings.loc[ceilings["value"].isna(), "reason"].str.len().gt(5).all()
    links = table(study, "links")
    assert set(links["what"]) == ({"call", "transfer"} if engine_of(study) == "horovod" else {"call"})
    assert set(links["engine"]) == {engine_of(study)}
    assert all(own["bytes"].is_monotonic_increasing for _, own in links.groupby("what"))
    assert set(table(study, "link_fits")["ranks"]) == {2}


def test_scratch_is_empty_afterwards(study):
    record = read_record(study.directory / RUN / "record.json")
    scratch = Path(record.provenance.command[record.provenance.command.index("--scratch") + 1])
    assert scratch.name == record.attempt
    assert not list(scratch.parent.glob(f"{scratch.name}*"))


def test_progress_is_visible(measured):
    assert f"[timed {RUN.removeprefix('results/runs/')}] epoch 1: loss" in measured.output
    log = measured.directory / "logs/train/cosmoflow_mini.fp32.n1x2.r1.log"
    assert "epoch 1: loss" in log.read_text()


@pytest.mark.parametrize("name", ["report", "workflow_report"])
def test_report_opens_offline_and_says_what_was_measured(study, name):
    html = (study.directory / f"results/{name}.html").read_text()
    assert len(html) > 100_000
    assert "The smallest study, for tests" in html
    assert "Traceback (most recent call last)" not in html


def test_equal_results_give_an_equal_report(study):
    report = study.directory / "results/report.html"
    before = report.read_bytes()
    assert study.snakemake("report", "--forcerun", "report", cold=True).returncode == 0
    assert report.read_bytes() == before


def test_a_study_is_compared_with_an_earlier_one(study, tmp_path):
    shutil.copytree(study.directory / "results", tmp_path / "earlier")
    runs = pd.read_parquet(tmp_path / "earlier/tables/runs.parquet")
    done = study.snakemake("results/tables/comparison.csv", config=[f"compare_with=['{tmp_path}/earlier']"])
    assert done.returncode == 0, done.stdout
    comparison = table(study, "comparison")
    compared = comparison[comparison["measure"] == "train_rate_samples_per_s"]
    assert set(compared["scale"]) == set(runs["scale"])
    assert compared["ratio"].to_numpy() == pytest.approx(1.0)
    assert len(table(study, "history")) >= 2 * len(compared)
    assert study.snakemake("all").returncode == 0
    assert table(study, "comparison").empty


def test_second_call_does_nothing(study):
    done = study.snakemake("all")
    assert done.returncode == 0
    assert "Nothing to be done" in done.stdout


RERUN = {
    "plots/scores/curves.py": {"show_runs", "show_views", "show_scores", "report"},
    "parsers/horovod/timeline.py": {"read_timeline", "collect_views", "show_views", "report"},
    "metrics/statistics/summaries.py": {"collect_runs", "score_study", "show_runs", "report"},
    "metrics/scores/vflops.py": {"collect_runs", "score_study", "show_scores", "report"},
    "compare/changes.py": {"score_study", "show_scores", "report"},
    "report/page.py": {"report"},
    "training/loop.py": set(),
    "data/stage.py": set(),
}
MEASURING = {
    *{"prepare_data", "pack_data", "train", "profile_run", "count_work"},
    *{"measure_ceiling", "measure_storage", "measure_allreduce"},
}
"""Rules that are never called again for what they have made."""


@OF_HOROVOD
@pytest.mark.parametrize("module", RERUN)
def test_a_changed_module_reruns_its_stage_and_never_a_measurement(study, module):
    rerun = RERUN[module]
    path = study.root / "src/hpcai" / module
    before = path.read_text()
    path.write_text(before + "# a comment\n")
    counts = study.dry_run("all")
    path.write_text(before)
    assert rerun <= set(counts)
    assert not MEASURING & set(counts)
    if "collect_runs" not in rerun:
        assert "collect_runs" not in counts
    if not rerun:
        assert counts == {}


def test_a_forced_measurement_is_not_repeated(study):
    before = read_record(study.directory / RUN / "record.json")
    done = study.snakemake(f"{RUN}/record.json", "--forcerun", "train")
    assert done.returncode == 0, done.stdout
    assert "published again, not repeated" in done.stdout
    assert read_record(study.directory / RUN / "record.json") == before
    assert study.snakemake("all").returncode == 0


def test_touched_data_call_nothing(study):
    (study.directory / "data/cosmoflow_mini/manifest.json").touch()
    assert study.dry_run("all") == {}


def test_a_run_is_not_published_again_for_other_data(study, tmp_path):
    folder = study.directory / RUN
    manifest = json.loads((study.directory / "data/cosmoflow_mini/manifest.json").read_text())
    manifest["splits"]["train"][0]["crc32c"] = "00000000"
    del manifest["content_sha256"]
    (tmp_path / "manifest.json").write_bytes(sealed_json(manifest))
    files = ["--plan", folder / "plan.json", "--manifest", tmp_path / "manifest.json", "--folder", folder]
    done = subprocess.run(
        ["hpcai", "measure", *files, "--launcher", "horovodrun"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "the data differs from the data" in done.stderr
    assert (folder / "record.json").exists()


def test_changed_settings_are_refused_before_anything_runs(study):
    benchmark = study.directory / "config/benchmarks/cosmoflow_mini.yaml"
    before = benchmark.read_text()
    edit_yaml(benchmark, recipe__base_learning_rate=0.02, title="another title")
    done = study.snakemake("--dry-run", "all")
    benchmark.write_text(before)
    assert done.returncode != 0
    assert "benchmark.recipe.base_learning_rate: 0.01 -> 0.02" in done.stdout
    # All runs are named at once: three timed ones, and those profiles that could be captured.
    profiles = CAPTURED[engine_of(study)]
    published = list((study.directory / "results").rglob("raw/plan.json"))
    assert len(published) >= 3 + len(profiles)
    assert done.stdout.count(OTHER_SETTINGS.opening) == len(published)


def test_what_does_not_change_a_run_calls_nothing(study):
    before = study.study.read_text()
    edit_yaml(study.study, limits={"run_s": "7 min"}, submission={"org": "others", "platform": "box"})
    counts = study.dry_run("all")
    study.study.write_text(before)
    assert "train" not in counts


def test_more_repeats_measure_only_what_is_missing(study):
    table = study.directory / "config/runs/tiny.tsv"
    before = table.read_text()
    table.write_text(before.replace("\t1\t1\t1\tfp32", "\t1\t1\t3\tfp32"))
    counts = study.dry_run("measure")
    table.write_text(before)
    assert counts.get("train") == 2, counts


def test_damaged_record_is_named_and_restored(study):
    path = study.directory / RUN / "record.json"
    text = path.read_text()
    path.write_text(text.replace('"wall_s":', '"wall_x":'))
    done = study.snakemake("analyse")
    assert done.returncode != 0
    log = (study.directory / "logs/collect_runs.log").read_text()
    assert str(path.relative_to(study.directory)) in log
    assert "SHA-256" in log
    assert "hpcai restore" in log
    path.write_text(text)
    assert study.snakemake("analyse").returncode == 0  # the next test makes the rest again


def test_analysis_without_measuring(study):
    shutil.rmtree(study.directory / "results/tables")
    counts = study.dry_run("analyse", config=["measure=false"])
    assert "train" not in counts
    assert counts["collect_runs"] == 1
    done = study.snakemake("all", config=["measure=false"])
    assert done.returncode == 0, done.stdout
    assert not MEASURING & set(study.dry_run("all"))


def test_equal_inputs_give_equal_tables(study):
    table = study.directory / "results/tables/runs.csv"
    before = table.read_bytes()
    done = study.snakemake("results/tables/runs.csv", "--forcerun", "collect_runs", cold=True)
    assert done.returncode == 0, done.stdout
    assert table.read_bytes() == before


def test_summary_is_plain_data(study):
    summary = json.loads((study.directory / "results/summary.json").read_text())
    assert summary["counts"]["runs"] == 3
