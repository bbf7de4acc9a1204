"""All five benchmarks with real ranks, from generated data to the report, with the options of the run table.

By Horovod, and in the slow tests by TensorFlow's collectives, too.
"""

import json
import math
import re
import shutil
import subprocess

import pandas as pd
import pytest
from browser.checks import check_page, missing_browser
from end_to_end.rank_runs import check_log
from end_to_end.studies import BENCHMARKS, TIMELINES, captures_of, engine_of, five_by_tensorflow, table

from hpcai.machine.work.compiled_step import DENSE
from hpcai.machine.work.step import WorkReport
from hpcai.parsers.hlo.traffic import UNKNOWN_TRIPS
from hpcai.parsers.horovod.timeline import read_timeline
from hpcai.records.files import read_part, read_record
from hpcai.records.run import FINISHED
from hpcai.records.weak import GROUP, WeakGroup

HPC_AI500 = ("resnet50", "extreme_weather")
WEAK = "results/weak/cosmoflow_mini/fp32/n1x1"
FUSION_BYTES = 4096
MEMORY_REMARKS = {
    "deepcam": DENSE,
    "extreme_weather": UNKNOWN_TRIPS(loops=4),
}
"""What the memory traffic leaves out or holds too much of."""


OF_HOROVOD = pytest.mark.parametrize("study", ["horovod"], indirect=True)
"""What only Horovod tells or does."""


@pytest.fixture(scope="module", params=["horovod", pytest.param("tensorflow", marks=pytest.mark.slow)])
def study(request, tmp_path_factory):
    if request.param == "horovod":
        return request.getfixturevalue("five_study")
    return five_by_tensorflow(tmp_path_factory.mktemp("five_by_tensorflow"))


@pytest.fixture(scope="module")
def records(study):
    paths = study.directory.glob("results/runs/*/*/*/r1/record.json")
    return {str(path.parent.relative_to(study.directory / "results/runs")): read_record(path) for path in paths}


def test_every_run_trains_to_its_end_with_equal_ranks(study, records):
    assert len(records) == (13 if engine_of(study) == "horovod" else 12)
    for name, record in records.items():
        assert record.outcome in FINISHED, f"{name}: {record.reason}"
        assert record.plan.point.engine == engine_of(study), name
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


def test_staging_off_the_clock_and_split_over_nodes(study, records):
    name = "resnet50_mini/fp32/n1x2/r1"
    staging = records[name].training.staging
    assert (staging.on_clock, staging.partition) == (False, "split")
    assert staging.staging_s > 0
    keys = re.findall(r'"key": "(\w+)"', (study.directory / f"results/runs/{name}/raw/mllog.txt").read_text())
    assert keys.index("init_stop") < keys.index("staging_start") < keys.index("staging_stop") < keys.index("run_start")


def test_instances_of_a_group_train_side_by_side(study):
    group = read_part(WeakGroup, study.directory / WEAK / GROUP)
    assert (group.instances, group.counted) == (2, 2)
    one, two = (read_record(study.directory / WEAK / f"i{number}/record.json") for number in (1, 2))
    assert not set(one.ranks[0].placement.cores) & set(two.ranks[0].placement.cores)
    assert one.plan.seed != two.plan.seed


@pytest.mark.parametrize(
    ("run", "wrong"),
    [
        (f"{WEAK}/i1", {"eval_error"}),
        (f"{WEAK}/i2", {"eval_error"}),
        ("results/runs/deepcam_mini/fp32/n1x2/r1", {"eval_accuracy", "train_samples", "eval_samples"}),
        ("results/runs/opencatalyst_mini/fp32/n1x2/r1", {"eval_error"}),
    ],
    ids=["instance 1", "instance 2", "deepcam", "opencatalyst"],
)
def test_logs_comply_but_for_target_and_samples(study, tmp_path, run, wrong):
    """The targets of the tests are those that any network reaches; the rules ask for the official ones."""
    done = check_log(shutil.copy(study.directory / run / "raw/mllog.txt", tmp_path / "mllog.txt"), "3.0.0")
    said = done.stdout + done.stderr
    assert set(re.findall(r"(?:CHECK|Failed checks) for '?(\w+)", said)) == wrong
    assert "Required" not in said


def test_options_are_columns_of_every_table(study):
    runs = pd.read_csv(study.directory / "results/tables/runs.csv")
    runs = runs[runs["repetition"] == 1].set_index(["benchmark", "variant", "ranks"])
    mixed = runs.loc["resnet50_mini", "mixed", 2]
    assert (mixed["precision"], mixed["compression"]) == ("bf16", "fp16")
    assert (mixed["accumulation"], mixed["batchnorm_group"]) == (2, 2)
    if engine_of(study) == "horovod":
        fused = runs.loc["deepcam_mini", "fused", 2]
        assert (fused["fusion_bytes"], fused["cycle_time_s"]) == (FUSION_BYTES, 0.001)
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
        for name in ("captures", "communication", "work")
    }
    captures = tables["captures"]
    broken = captures[captures["status"].eq("not readable") | captures["reason"].str.contains("profiled run failed")]
    assert broken.empty, broken[["benchmark", "variant", "profile", "reason"]].to_string()
    timelines = TIMELINES if engine_of(study) == "horovod" else ()
    for view, names in {"communication": timelines, "work": BENCHMARKS}.items():
        assert set(tables[view]["benchmark"]) == {f"{name}_mini" for name in names}, view
    counted = tables["work"][tables["work"]["method"] == "hlo"].dropna(subset=["ratio_to_formula"])
    ratios = counted.groupby("benchmark")["ratio_to_formula"].first()
    assert set(ratios.index) == {f"{name}_mini" for name in BENCHMARKS}
    assert ratios.to_numpy() == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_the_counted_work_is_that_of_the_formula(study, benchmark):
    """As unit/machine/work/test_step.py of larger networks."""
    report = read_part(WorkReport, study.directory / f"results/characterise/work/{benchmark}_mini.json")
    formula, sixfold, hlo = (
        next(count for count in report.counts if count.method == method)
        for method in ("formula", "formula_sixfold", "hlo")
    )
    assert hlo.ratio_to_formula == pytest.approx(1, abs=0.002)
    assert report.hlo.samples == min(8, report.samples_per_step)
    assert formula.flop_per_step == pytest.approx(report.samples_per_step * formula.flop_per_sample)
    assert 1 < sixfold.ratio_to_formula < 1.4
    assert sum(layer.share_ratio for layer in report.layers) == pytest.approx(1)
    # Only graphs are filled up, and only depthwise convolutions are not what they are after optimisation.
    assert (hlo.remark is not None) == (benchmark == "opencatalyst")
    assert report.hlo.stage == ("hlo" if benchmark == "deepcam" else "optimized_hlo")
    assert hlo.memory_bytes_per_sample * report.hlo.samples == pytest.approx(report.hlo.memory_bytes_per_batch)
    assert 0 < report.hlo.compulsory_bytes_per_batch < report.hlo.memory_bytes_per_batch
    assert report.hlo.memory_remark == MEMORY_REMARKS.get(benchmark)
    if benchmark == "opencatalyst":
        assert hlo.flop_per_sample >= 0.999 * formula.flop_per_sample  # graphs are filled up
    else:
        assert hlo.flop_per_step == pytest.approx(formula.flop_per_step, rel=0.002)


@OF_HOROVOD
def test_gradients_travel_one_by_one_as_horovod_fuses_them(study):
    """All may be ready at once on a busy machine: the buffer is too small for them, so that they still need several."""
    communication = table(study, "communication").set_index(["benchmark", "variant"])
    fused, grouped = (communication.loc["deepcam_mini", variant] for variant in ("fused", "fp32"))
    assert fused["bytes_per_step"] > 4 * FUSION_BYTES
    assert fused["batches"] > 4 * fused["steps"]
    assert grouped["batches"] == grouped["steps"]
    messages = table(study, "messages").set_index(["benchmark", "variant"])
    assert messages.loc[("deepcam_mini", "fused"), "bytes"].max() <= FUSION_BYTES
    for variant, named in (("fused", "gradient."), ("fp32", "gradients_")):
        timeline = study.directory / f"results/profiles/timeline/deepcam_mini/{variant}/n1x2/r1/raw/timeline.json"
        tensors = read_timeline(timeline).table["tensor"].astype(str)
        assert set(tensors[tensors.str.startswith("gradient")].str.extract(r"^(gradient(?:\.|s_))")[0]) == {named}


@OF_HOROVOD
def test_what_belongs_to_a_step_travels_in_one_message(study):
    """Also in half precision."""
    communication = table(study, "communication").set_index(["benchmark", "variant"])
    one_message_per_step(communication, TIMELINES)
    # Half precision; the smaller messages are statistics of batch-norm groups.
    sizes = table(study, "messages").set_index(["benchmark", "variant"]).loc[("resnet50_mini", "mixed"), "bytes"]
    assert (sizes == sizes.max()).sum() == communication.loc[("resnet50_mini", "mixed"), "steps"]
    assert 4 not in set(sizes)


def one_message_per_step(communication, names):
    for name in names:
        plain = communication.loc[f"{name}_mini", "fp32"]
        assert (plain["batches"], plain["other_batches"]) == (plain["steps"], 0), name


def profile_all_five(measured, profile, view):
    """Profile fp32 of all five; return a table of their captures."""
    assert measured.snakemake(*captures_of(f"{profile}/{name}_mini/fp32" for name in BENCHMARKS)).returncode == 0
    view = f"results/characterise/{profile}/{view}.parquet"
    done = measured.snakemake(view, config=["measure=false"])
    assert done.returncode == 0, done.stdout
    return pd.read_parquet(measured.directory / view)


@pytest.mark.slow
def test_all_five_travel_in_one_message(measured):
    """Also with the atoms that OpenCatalyst's loss is divided by."""
    communication = profile_all_five(measured, "timeline", "communication")
    one_message_per_step(communication.set_index(["benchmark", "variant"]), BENCHMARKS)


@pytest.mark.slow
def test_kernels_of_all_five_are_profiled(measured):
    kernels = profile_all_five(measured, "kernels", "kernels")
    assert set(kernels["benchmark"]) == {f"{name}_mini" for name in BENCHMARKS}
    assert kernels.groupby("run_id")["share_ratio"].sum().to_numpy() == pytest.approx(1.0)


def test_scores_follow_the_suites(study):
    trials, fused = table(study, "run_scores").set_index("run_id"), engine_of(study) == "horovod"
    assert len(trials) == 13 + fused
    assert trials["rate_flop_per_s"].to_numpy() == pytest.approx(
        (trials["train_rate_samples_per_s"] * trials["flop_per_sample"]).to_numpy()
    )
    defined = trials[trials["suite"] == "hpc_ai500"]
    assert set(defined["exponent"]) == {5, 10}
    ratio = (defined["quality"] / defined["quality_target"]) ** defined["exponent"]
    assert defined["vflops_flop_per_s"].to_numpy() == pytest.approx((defined["rate_flop_per_s"] * ratio).to_numpy())
    others = trials[trials["suite"] == "mlperf_hpc"]
    assert others["vflops_flop_per_s"].isna().all()
    assert others["reason"].str.contains("no VFLOPS").all()
    scores = table(study, "scores")
    assert len(scores) == 12 + fused
    assert scores["n_scored"].sum() == len(trials)
    assert scores["statistic"].str.fullmatch(r"one run|median of \d+").all()
    by_throughput = scores["train_rate_samples_per_s"] * scores["flop_per_sample"]
    assert scores["rate_flop_per_s"].to_numpy() == pytest.approx(by_throughput.to_numpy())


def test_results_of_others_are_ranked_with_ours(study):
    ranking = table(study, "ranking")
    own = ranking[ranking["method"] == "measured"]
    assert own["place"].isna().all()  # generated data make no valid result, and no place
    assert set(own["benchmark"]) == {f"{name}_mini" for name in BENCHMARKS}
    for measure in ("VFLOPS", "FLOPS"):
        listed = ranking[ranking["measure"] == measure]
        declared = listed[listed["result"] == "dreamed"]
        assert declared[["method", "place"]].to_numpy().tolist() == [["declared", 1]]
        # Others count another work of a sample: ours stands in a list of its own, and recomputed in theirs.
        ours = listed[listed["benchmark"] == "resnet50_mini"].set_index("flop_method")
        assert ours.loc["declared", "list"] == declared["list"].item()
        assert ours.loc["declared", "flop_per_sample"] == 1e6
        assert ours.loc["formula", "list"] != declared["list"].item()


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
    ratio = intensity["resnet50_mini", "mixed"] / intensity["resnet50_mini", "fp32"]
    if engine_of(study) == "horovod":
        assert 1 < ratio < 2
    else:
        assert ratio == pytest.approx(2)  # without a timeline the message is modelled, from the parameters alone


def test_variants_and_scaling_are_explained(study):
    effects = table(study, "variant_effects")
    variants = {("resnet50_mini", "mixed"), ("deepcam_mini", "fused")}
    expected = variants if engine_of(study) == "horovod" else variants - {("deepcam_mini", "fused")}
    assert expected <= set(zip(effects["benchmark"], effects["variant"], strict=True))
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
