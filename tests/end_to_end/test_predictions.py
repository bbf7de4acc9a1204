"""Predictions of a real study: kernels, steps and HPL measured on this machine, and what the models make of them."""

import json
import subprocess
import sys

import pandas as pd
import pytest

from hpcai.metrics.scaling.model_limits import NOT_CALIBRATED, TOO_EFFICIENT
from hpcai.predict.kernels.cases import KERNELS
from hpcai.predict.training.layers import LayerList, count_parameters
from hpcai.predict.what_if.step_model import SLOW_EXCHANGE, UNEVEN_BATCH
from hpcai.records.files import read_part

# Kernels, steps and HPL take minutes, however few of them.
pytestmark = pytest.mark.slow
LAYERS = "results/characterise/layers/cosmoflow_mini.json"


@pytest.fixture(scope="module")
def predicted(tiny_study):
    """The tiny study with predictions, and at rest."""
    for target in ("predict", "regressors", "all"):
        done = tiny_study.snakemake(target)
        assert done.returncode == 0, done.stdout
    return tiny_study


def table(study, name):
    return pd.read_parquet(study.directory / f"results/tables/{name}.parquet")


def test_every_kernel_is_measured_and_judged(predicted):
    accuracy = table(predicted, "kernel_accuracy").set_index("kernel")
    assert set(accuracy.index) == set(KERNELS)
    assert (accuracy["n"] + accuracy["n_unusable"] == 30).all()
    fitted = accuracy[accuracy["reason"] == ""]
    assert len(fitted) > len(KERNELS) / 2
    assert fitted["mape_ratio"].gt(0).all()
    assert table(predicted, "kernel_goals")["kernels"].eq(len(KERNELS)).all()


def test_steps_are_compared_with_their_kernels(predicted):
    steps = table(predicted, "step_accuracy")
    assert set(steps["origin"]) == {"reference network", "own run"}
    whole = steps[(steps["stage"] == "step") & (steps["origin"] == "own run")]
    assert set(whole["ranks"]) == {1, 2}
    assert whole["measured_s"].gt(0).all()
    assert steps["method"].eq("modelled").all()


def test_hpl_is_run_or_says_why_not(predicted):
    runs = table(predicted, "hpl_validation")
    assert set(runs["model"]) == {"all parts", "three rates", "GEMM only", "credited / GEMM rate"}
    for run in runs.to_dict("records"):
        if run["verdict"] == "passed":
            assert run["residual"] < run["threshold"]
            assert run["measured_time_s"] > 0
        else:
            assert "hpcc" in run["reason"]
    assert (predicted.directory / "results/predict/box/hpl.json").is_file()


def test_predictions_never_pose_as_measurements(predicted):
    predictions = table(predicted, "predictions")
    assert set(predictions["question"]) == {"scale", "link", "precision", "compression"}
    assert predictions["method"].str.startswith("modelled").all()
    # On a fast processor a step of this small network is little but overhead, which no model here describes.
    refusals = (NOT_CALIBRATED, UNEVEN_BATCH, TOO_EFFICIENT, SLOW_EXCHANGE)
    without = predictions[predictions["step_s"].isna()]
    said = [{one for one in refusals if one.find_in(reason) is not None} for reason in without["reason"]]
    assert all(said), without["reason"].to_list()
    assert predictions["step_s"].gt(0).any() or {NOT_CALIBRATED} in said
    bare = predictions[predictions["step_s"].notna() & predictions["step_low_s"].isna()]
    assert bare["interval_basis"].ne("").all()
    chart = json.loads((predicted.directory / "results/figures/scaling.json").read_text())
    drawn = predictions.loc[predictions["question"] == "scale", "speedup_ratio"].notna().any()
    assert "points" in chart["datasets"]
    assert ("predictions" in chart["datasets"]) == drawn


def test_the_layers_are_those_of_the_model(predicted):
    layers = read_part(LayerList, predicted.directory / LAYERS)
    record = json.loads(next((predicted.directory / "results/runs").rglob("record.json")).read_text())
    assert count_parameters(layers) == record["training"]["parameters"]


@pytest.mark.parametrize(
    "asked",
    [
        ("hpl", "--order", "125000", "--block", "256", "--machine", "config/machines/paper_hu_lu_4gpu.yaml"),
        ("training", "--layers", LAYERS, "--preset", "hypothetical", "--sweep", "nodes=1,64"),
    ],
    ids=["hpl", "training"],
)
def test_the_command_line_predicts(predicted, asked):
    words = [str(predicted.root / word) if word.startswith("config/") else word for word in asked]
    command = [sys.executable, "-m", "hpcai", "predict", *words, "--output", "json"]
    done = subprocess.run(command, cwd=predicted.directory, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "modelled" in done.stdout
    json.loads(done.stdout)
