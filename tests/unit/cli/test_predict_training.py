"""The command: its output in three formats, and refusals in one line."""

import csv
import io
import json

import pytest
from unit import refusals
from unit.predict.kernels.made_regressors import make_constant_regressor

from hpcai.cli import predict_training
from hpcai.cli.main import call
from hpcai.core.errors import ConfigError
from hpcai.predict.kernels.cases import KERNELS
from hpcai.predict.kernels.regressor import KernelRegressors
from hpcai.predict.training.layers import COSTS_NOTHING, Layer, LayerList

BASE = ("--network", "vgg16", "--data", "cifar10", "--preset", "hypothetical")
MACHINE = ("--peak", "19.5 TFLOP/s", "--memory", "1555 GB/s", "--link", "200 Gbit/s", "--latency", "1 us")


def _run(*arguments):
    return call(["predict", "training", *arguments])


@pytest.fixture
def printed(capsys):
    def run(*arguments):
        assert _run(*arguments) == 0
        return capsys.readouterr().out

    return run


def test_json_has_the_numbers_with_their_origin(printed):
    content = json.loads(printed(*BASE, "--output", "json"))
    (scenario,) = content["scenarios"]
    assert round(scenario["compute_s"] * 1e3, 3) == 12.348
    assert round(scenario["communication_s"] * 1e3, 3) == 7.998
    assert content["parameters"] == 15_245_130
    assert content["method"].startswith("modelled")
    assert content["origins"]["latency_s"].startswith("inferred")
    assert (content["cost_model"], content["allreduce"], content["form"]) == ("gemm", "per-layer", "corrected")
    assert content["not_modelled"]


def test_units_make_the_preset_by_hand(printed):
    by_hand = ("--network", "vgg16", "--data", "cifar10", *MACHINE, "--nodes", "100", "--batch", "128")
    content = json.loads(printed(*by_hand, "--output", "json"))
    assert content["scenarios"] == json.loads(printed(*BASE, "--output", "json"))["scenarios"]
    assert content["origins"] == {}


def test_an_option_replaces_the_preset_and_its_origin(printed):
    content = json.loads(printed(*BASE, "--latency", "2 us", "--output", "json"))
    assert content["scenarios"][0]["latency_s"] == 2e-6
    assert "latency_s" not in content["origins"]
    assert "peak_flop_per_s" in content["origins"]


def test_sweeps_combine(printed):
    sweeps = ("--sweep", "nodes=1,10,100", "--sweep", "link=10 Gbit/s,200 Gbit/s")
    rows = list(csv.DictReader(io.StringIO(printed(*BASE, *sweeps, "--output", "csv"))))
    assert len(rows) == 6
    assert {(float(row["ranks"]), float(row["link_bit_per_s"])) for row in rows} == {
        (ranks, link) for ranks in (1, 10, 100) for link in (1e10, 2e11)
    }
    assert all(float(row["communication_s"]) == 0 for row in rows if float(row["ranks"]) == 1)
    assert all(row["method"].startswith("modelled") for row in rows)


def test_the_table_is_for_reading(printed):
    single = printed(*BASE)
    assert "VGG16, CIFAR-10" in single
    assert "modelled: roofline gemm" in single
    assert "latency_s: inferred" in single
    assert "step_s" in single
    several = printed(*BASE, "--sweep", "batch=16,32").splitlines()
    assert several[-3].split()[:2] == ["batch", "compute_s"]
    assert [line.split()[0] for line in several[-2:]] == ["16", "32"]


def test_layers_in_rows(printed):
    content = json.loads(printed(*BASE, "--per-layer", "--cost-model", "full", "--output", "json"))
    layers = content["layers"]
    assert layers[0]["layer"] == "conv1_1"
    assert layers[0]["input_gradient_s"] == 0
    assert layers[1]["elementwise_s"] > 0
    assert round(sum(layer["communication_s"] for layer in layers) * 1e3, 3) == 7.998
    fused = json.loads(printed(*BASE, "--per-layer", "--allreduce", "fused", "--output", "json"))["layers"]
    assert {layer["communication_s"] for layer in fused} == {None}
    assert {layer["reason"] for layer in fused} == {"one message for all layers"}
    assert "conv1_1" in printed(*BASE, "--per-layer")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--cost-model", "im2col"), "im2col"),
        (("--allreduce", "fused"), "fused"),
        (("--form", "printed"), "not a time"),
        (("--overlap",), ", overlap"),
    ],
)
def test_equations_are_chosen_and_named(printed, options, words):
    plain, chosen = (json.loads(printed(*BASE, *more, "--output", "json")) for more in ((), options))
    assert words in chosen["method"]
    assert chosen["scenarios"][0]["step_s"] != plain["scenarios"][0]["step_s"]


@pytest.mark.parametrize(
    ("options", "column"),
    [
        (("--precision-bytes", "2"), "communication_s"),
        (("--compression", "0.5"), "communication_s"),
        (("--optimizer", "adam"), "update_s"),
        (("--input", "0.2 ms"), "input_s"),
        (("--samples", "1000000"), "epoch_s"),
    ],
)
def test_options_act_on_their_column(printed, options, column):
    plain, chosen = (json.loads(printed(*BASE, *more, "--output", "json")) for more in ((), options))
    assert chosen["scenarios"][0][column] != plain["scenarios"][0][column]


def test_normalisations_may_stay_out_of_messages(printed):
    resnet = ("--network", "resnet50", "--data", "cifar10", "--preset", "hypothetical", "--output", "json")
    content = json.loads(printed(*resnet, "--no-batch-norm-messages"))
    assert round(content["scenarios"][0]["communication_s"] * 1e3, 3) == 18.128


def test_input_hides_behind_the_step_on_demand(printed):
    content = json.loads(printed(*BASE, "--input", "1 ns", "--input-overlap", "--output", "json"))
    assert content["scenarios"] == [
        {
            **json.loads(printed(*BASE, "--output", "json"))["scenarios"][0],
            "input_s": 1.28e-7,
            "input_s_per_sample": 1e-9,
        }
    ]


def test_layers_of_a_benchmark_come_from_its_file(printed, tmp_path):
    layer = Layer("dense", "dense", (64,), (10,), parameters=650, bias=True)
    other = Layer("special", "other", (10,), (10,))
    network = LayerList(name="own", title="Own net", layers=(layer, other), source="test", not_modelled=("loss",))
    path = tmp_path / "layers.json"
    path.write_text(network.model_dump_json())
    content = json.loads(printed("--layers", str(path), "--preset", "hypothetical", "--output", "json"))
    assert content["network"] == "Own net"
    assert content["not_modelled"] == ["loss", COSTS_NOTHING(layer="special")]
    # How many samples an epoch has is not known.
    assert content["scenarios"][0]["epoch_s"] is None
    assert "unknown" in printed("--layers", str(path), "--preset", "hypothetical")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--peak", "0 TFLOP/s"), "peak_flop_per_s is 0, expected above 0"),
        (("--memory", "-1 GB/s"), "memory_bytes_per_s is -1e"),
        (("--link", "0 Gbit/s"), "link_bit_per_s is 0"),
        (("--link", "fast"), "'fast' is not understood, write for example '200 Gbit/s'"),
        (("--link", "200 GB"), "is not understood"),
        (("--peak", "nan TFLOP/s"), "--peak 'nan TFLOP/s'"),
        (("--latency=-1 us",), "latency_s is -1e-06, expected at least 0"),
        (("--nodes", "0"), "ranks is 0, expected at least 1"),
        (("--batch", "0"), "batch is 0, expected at least 1"),
        (("--batch", "1.5"), "not a whole number"),
        (("--batch", "many"), "'many' is not understood"),
        (("--batch", "inf"), "not a finite number"),
        (("--compression", "0"), "compression_ratio is 0"),
        (("--samples", "0"), "--samples '0'"),
        (("--preset", "cray"), "choose from hypothetical, validation"),
        (("--network", "lenet"), "choose from vgg11"),
        (("--data", "mnist"), "choose from cifar10, imagenet"),
        (("--sweep", "colour=1,2"), "expected NAME=A,B,C"),
        (("--sweep", "nodes="), "expected NAME=A,B,C"),
        (("--sweep", "nodes=1,0"), "ranks is 0"),
        (("--sweep", "nodes=1,x"), "'x' is not understood"),
        (("--sweep", "nodes=1", "--sweep", "nodes=2"), "given twice"),
        (("--sweep", "nodes=1", "--nodes", "2"), "both given"),
        (("--sweep", "nodes=1", "--per-layer"), "both given"),
        (("--sweep", "nodes=" + ",".join(["1"] * 10_001)), "at most 10000"),
        (("--layers", "layers.json"), "cannot be combined"),
    ],
)
def test_bad_options_are_refused_in_one_line(options, words):
    with pytest.raises(ConfigError) as caught:
        _run(*BASE, *options)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--preset", "hypothetical"), "no network"),
        (("--network", "vgg16", "--preset", "hypothetical"), "no network"),
        (("--network", "vgg16", "--data", "cifar10", *MACHINE, "--batch", "4"), "--nodes missing: give it"),
        (("--network", "vgg16", "--data", "cifar10", "--batch", "4"), "--peak, --memory, --link, --latency, --nodes"),
        (("--network", "vgg16", "--data", "cifar10", "--preset", "validation"), "--batch missing"),
        (("--layers", "no_such_file.json", "--preset", "hypothetical"), "cannot be read"),
    ],
)
def test_what_is_missing_is_named(arguments, words):
    with pytest.raises(ConfigError, match=words):
        _run(*arguments)


@pytest.mark.parametrize("text", ["", "{}", "no JSON", '{"name": "x", "title": "X", "layers": [], "source": "s"}'])
def test_damaged_files_are_refused_in_one_line(tmp_path, text):
    path = tmp_path / "layers.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"layers\.json: ") as caught:
        _run("--layers", str(path), "--preset", "hypothetical")
    assert "\n" not in str(caught.value)


def test_help_has_an_example(capsys):
    assert _run("--help") == 0
    assert "--network resnet50" in capsys.readouterr().out


def test_regressors_take_the_place_of_the_roofline(printed, tmp_path):
    made = {kernel: make_constant_regressor(kernel, 1e-3) for kernel in KERNELS}
    file = tmp_path / "regressors.json"
    file.write_text(KernelRegressors(regressors=made, source="made").model_dump_json())
    content = json.loads(printed(*BASE, "--regressors", str(file), "--output", "json"))
    assert content["cost_model"] == "kernel regressors"
    assert "roofline" not in content["method"]
    one = content["scenarios"][0]["compute_s"]
    (fast,) = json.loads(printed(*BASE, "--output", "json"))["scenarios"]
    assert one != fast["compute_s"]
    layers = json.loads(printed(*BASE, "--regressors", str(file), "--per-layer", "--output", "json"))["layers"]
    assert all(layer["forward_s"] >= 1e-3 * (1 - 1e-6) for layer in layers if layer["kind"] in ("convolution", "dense"))


@pytest.mark.parametrize("option", [("--optimizer", "adam"), ("--cost-model", "full"), ("--cost-model", "gemm")])
def test_what_regressors_leave_out_is_refused_and_not_claimed(printed, tmp_path, option):
    made = {kernel: make_constant_regressor(kernel, 1e-3) for kernel in KERNELS}
    file = tmp_path / "regressors.json"
    file.write_text(KernelRegressors(regressors=made, source="made").model_dump_json())
    asked = (*BASE, "--regressors", str(file), "--output", "json")
    with refusals.refused(ConfigError, predict_training.BESIDE_REGRESSORS, option=option[0]):
        _run(*asked, *option)
    assert "optimizer_passes" not in json.loads(printed(*asked))
    assert "optimizer_passes" in json.loads(printed(*BASE, *option, "--output", "json"))


@pytest.mark.parametrize(
    ("text", "says"), [("no JSON", "no regressors"), ('{"regressors": {}, "source": ""}', "measure")]
)
def test_files_without_regressors_are_refused(tmp_path, text, says):
    file = tmp_path / "regressors.json"
    file.write_text(text)
    with pytest.raises(ConfigError, match=says):
        _run(*BASE, "--regressors", str(file))
