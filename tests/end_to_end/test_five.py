"""All five benchmarks with real ranks, from generated data to the report, with the options of the run table."""

import json
import math
import shutil
import subprocess

import pandas as pd
import pytest
from browser.checks import check_page, missing_browser
from workflow_project import ROOT, Project

from hpcai.records import FINISHED, read_record

BENCHMARKS = ("resnet50", "extreme_weather", "cosmoflow", "deepcam", "opencatalyst")
HPC_AI500 = ("resnet50", "extreme_weather")
# The first test makes two studies: this one and the tiny one.
pytestmark = pytest.mark.timeout(2700)


@pytest.fixture(scope="module")
def study(tmp_path_factory, machine_reports):
    """The finished study; the ceilings of this machine are those of the tiny one."""
    project = Project(tmp_path_factory.mktemp("five"), study=ROOT / "tests/config/five.yaml")
    taken_over = project.directory / "results/characterise"
    taken_over.mkdir(parents=True)
    for report in machine_reports:
        shutil.copy(report, taken_over)
    done = project.snakemake("report")
    assert done.returncode == 0, done.stdout
    return project


@pytest.fixture(scope="module")
def records(study):
    paths = study.directory.glob("results/runs/*/*/*/r1/record.json")
    return {str(path.parent.relative_to(study.directory / "results/runs")): read_record(path) for path in paths}


def test_every_run_trains_to_its_end_with_equal_ranks(records):
    assert len(records) == 13
    for name, record in records.items():
        assert record.outcome in FINISHED, f"{name}: {record.reason}"
        assert len({rank.weights_sha256 for rank in record.ranks}) == 1, name
        last = record.training.epochs[-1]
        assert math.isfinite(last.train_loss), name
        assert last.evaluation_samples == record.plan.benchmark.data.validation_samples, name
        if not name.startswith("extreme_weather"):  # so small a detector may well find nothing
            assert record.outcome == "converged", f"{name}: {record.reason}"


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_two_ranks_see_the_samples_of_one(records, benchmark):
    one, two = (records[f"{benchmark}_mini/fp32/n1x{ranks}/r1"].training for ranks in (1, 2))
    assert one.parameters == two.parameters
    assert one.epochs[0].samples == two.epochs[0].samples
    # Batch-norm statistics are those of a rank's own part, and seeds differ: only the order of magnitude is the same.
    assert two.epochs[0].train_loss == pytest.approx(one.epochs[0].train_loss, rel=0.6)


def test_hpc_ai500_trains_all_epochs_with_staging_before_the_clock(records):
    for name, record in records.items():
        fixed = name.startswith(HPC_AI500)
        assert record.training.staging.on_clock != fixed
        if fixed:
            assert len(record.training.epochs) == record.plan.benchmark.recipe.max_epochs


def test_options_are_columns_of_every_table(study):
    runs = pd.read_csv(study.directory / "results/tables/runs.csv").set_index(["benchmark", "variant", "ranks"])
    mixed = runs.loc["resnet50_mini", "mixed", 2]
    assert (mixed["precision"], mixed["compression"]) == ("bf16", "fp16")
    assert (mixed["accumulation"], mixed["batchnorm_group"]) == (2, 2)
    fused = runs.loc["deepcam_mini", "fused", 2]
    assert (fused["fusion_bytes"], fused["cycle_time_s"]) == (65536, 0.001)
    scales = pd.read_csv(study.directory / "results/tables/scales.csv")
    assert set(zip(scales["benchmark"], scales["variant"], strict=True)) == {key[:2] for key in runs.index}


def test_nothing_generated_is_called_a_valid_result(study, records):
    for name, record in records.items():
        assert record.verdicts, name
        assert not any(verdict.valid for verdict in record.verdicts), name
    labels = pd.read_csv(study.directory / "results/tables/scales.csv").set_index("benchmark")["label"]
    for benchmark in BENCHMARKS:
        suite = "HPC AI500" if benchmark in HPC_AI500 else "MLPerf HPC"
        for label in labels.loc[[f"{benchmark}_mini"]]:
            assert label.startswith(f"not a valid {suite}"), label


def test_all_five_are_characterised(study):
    tables = {
        name: pd.read_parquet(study.directory / f"results/tables/{name}.parquet")
        for name in ("captures", "communication", "kernels", "work")
    }
    names = {f"{name}_mini" for name in BENCHMARKS}
    captures = tables["captures"]
    broken = captures[captures["status"].eq("not readable") | captures["reason"].str.contains("broke down")]
    assert broken.empty, broken[["benchmark", "variant", "profile", "reason"]].to_string()
    for view in ("communication", "kernels", "work"):
        assert set(tables[view]["benchmark"]) == names, view
    shares = tables["kernels"].groupby("run_id")["share_ratio"].sum()
    assert shares.to_numpy() == pytest.approx(1.0)
    counted = tables["work"][tables["work"]["method"] == "hlo"].dropna(subset=["ratio_to_formula"])
    ratios = counted.groupby("benchmark")["ratio_to_formula"].first()
    assert set(ratios.index) == names
    assert ratios.to_numpy() == pytest.approx(1.0, abs=0.01)
    fused = tables["communication"].set_index("variant").loc["fused"]
    assert fused["batches"] > fused["steps"]  # gradients travel one by one, as Horovod fuses them


def table(study, name):
    return pd.read_parquet(study.directory / f"results/tables/{name}.parquet")


def test_scores_follow_the_suites(study):
    trials = table(study, "run_scores").set_index("run_id")
    assert len(trials) == 13
    assert trials["rate_flop_per_s"].to_numpy() == pytest.approx(
        (trials["train_rate_samples_per_s"] * trials["flop_per_sample"]).to_numpy()
    )
    defined = trials[trials["suite"] == "hpc_ai500"]
    assert set(defined["exponent"]) == {5, 10}
    ratio = (defined["quality"] / defined["quality_target"]) ** defined["exponent"]
    assert defined["valid_rate_flop_per_s"].to_numpy() == pytest.approx((defined["rate_flop_per_s"] * ratio).to_numpy())
    others = trials[trials["suite"] == "mlperf_hpc"]
    assert others["valid_rate_flop_per_s"].isna().all()
    assert others["reason"].str.contains("no VFLOPS").all()
    scores = table(study, "scores")
    assert len(scores) == 13
    assert (scores["n_scored"] == 1).all()
    assert scores["score_method"].str.contains("nothing dropped").all()


def test_results_of_others_are_ranked_with_ours(study):
    ranking = table(study, "ranking")
    own = ranking[ranking["method"] == "measured"]
    assert own["place"].isna().all()  # generated data make no valid result, and no place
    assert set(own["benchmark"]) == {f"{name}_mini" for name in BENCHMARKS}
    for measure in ("VFLOPS", "FLOPS"):
        listed = ranking[ranking["measure"] == measure]
        declared = listed[listed["result"] == "dreamed"]
        assert declared[["method", "place"]].to_numpy().tolist() == [["declared", 1]]
        ours = listed.loc[listed["benchmark"] == "resnet50_mini", "list"]
        assert ours.to_list() == declared["list"].to_list()


def test_every_exchange_stands_under_its_roofs(study):
    points = table(study, "roofline_points")
    drawn = points[points["status"] == "drawn"]
    exchanging = drawn[drawn["scope"] == "intra_node"]
    assert set(exchanging["benchmark"]) == {f"{name}_mini" for name in BENCHMARKS}
    assert (exchanging["ranks"] == 2).all()
    assert (drawn["roof_ratio"] <= 1.02).all()
    unplaced = points[points["status"] != "drawn"]
    assert unplaced["reason"].str.len().gt(10).all()
    # Gradients travel in half precision, batch-norm statistics of the group besides: fewer bytes for the same work.
    intensity = exchanging.set_index(["benchmark", "variant"])["intensity_flop_per_byte"]
    assert 1 < intensity["resnet50_mini", "mixed"] / intensity["resnet50_mini", "fp32"] < 2


def test_variants_and_scaling_are_explained(study):
    effects = table(study, "variant_effects")
    assert {("resnet50_mini", "mixed"), ("deepcam_mini", "fused")} <= set(
        zip(effects["benchmark"], effects["variant"], strict=True)
    )
    fits = table(study, "scaling_fits")
    assert set(fits["benchmark"]) == {f"{name}_mini" for name in BENCHMARKS}
    details = table(study, "scaling_details")
    regimes = details.groupby(["benchmark", "variant"])["regime"].unique().str.join(" ")
    assert set(regimes[:, "fp32"]) == {"strong"}
    assert set(regimes.drop("fp32", level="variant")) == {"undetermined"}  # one scale each


@pytest.mark.parametrize("benchmark", HPC_AI500)
def test_report_document_can_be_handed_in(study, benchmark):
    folder = study.directory / f"results/hpc_ai500/{benchmark}_mini"
    done = subprocess.run(
        ["sha256sum", "--quiet", "-c", "MANIFEST.sha256"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    runs = pd.read_csv(folder / "scores.csv")
    assert len(runs) == len(list((study.directory / f"results/runs/{benchmark}_mini").rglob("record.json"))) / 2
    assert "missing" in (folder / "README.md").read_text()


def test_the_report_has_all_five_side_by_side(study):
    summary = json.loads((study.directory / "results/summary.json").read_text())
    assert {entry["name"] for entry in summary["benchmarks"]} == {f"{name}_mini" for name in BENCHMARKS}
    html = (study.directory / "results/report.html").read_text()
    assert all(f"{name}_mini" in html for name in BENCHMARKS)


@pytest.mark.skipif(bool(missing_browser()), reason=missing_browser() or "-")
def test_the_report_is_whole_in_a_browser(study):
    assert check_page(study.directory / "results/report.html") == []
