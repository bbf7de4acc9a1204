"""Reference networks: built from the predicted layer lists, compiled steps that learn, crashes with a reason."""

import sys
import tempfile

import pytest

from hpcai.core.errors import LaunchError
from hpcai.machine.kernels import reference_steps
from hpcai.machine.kernels.reference_networks import build_model, reference_network
from hpcai.machine.kernels.reference_steps import BATCHES, PARTS, compile_parts, measure_reference_steps
from hpcai.predict.training.layers import count_parameters
from hpcai.predict.training.networks import build_network

STUB = """
import os, signal, sys
from hpcai.machine.kernels import reference_steps as steps
steps.settle = lambda: None
steps.software_versions = lambda: "s"
from hpcai.machine.kernels import reference_networks as networks
networks.build_model = lambda network, batch: batch
def compile_parts(model, batch):
    if batch == 16:
        os.kill(os.getpid(), signal.SIGABRT)
    return {part: lambda: sum(range(10**6)) for part in steps.PARTS}
steps.compile_parts = compile_parts
sys.argv = sys.argv[2:]
steps.main()
"""


@pytest.fixture(autouse=True)
def own_lock(tmp_path_factory, monkeypatch):
    """Keep these tests from waiting for a concurrent measurement."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("lock")))


@pytest.mark.parametrize("name", BATCHES)
def test_models_have_the_layers_and_parameters_of_their_list(name):
    network = reference_network(name)
    model = build_model(network, 2)
    trained = sum(int(variable.value.shape.num_elements()) for variable in model.trainable_variables)
    assert trained == count_parameters(network)
    names = {layer.name for layer in model.layers}
    assert {layer.name for layer in network.layers} <= names
    assert model.output_shape == (2, 10)


def test_residual_blocks_join_their_entry_or_its_shortcut():
    model = build_model(reference_network("resnet50"), 1)
    joined = {
        layer.name: {operand._keras_history.operation.name for operand in layer.input}
        for layer in model.layers
        if layer.name.endswith("_add")
    }
    assert joined["block1_1_add"] == {"block1_1_3_norm", "block1_1_shortcut_norm"}
    assert joined["block1_2_add"] == {"block1_2_3_norm", "block1_1_relu"}
    assert joined["block4_1_add"] == {"block4_1_3_norm", "block4_1_shortcut_norm"}
    assert model.get_layer("block4_1_shortcut_conv").input._keras_history.operation.name == "block3_6_relu"


def test_layers_without_a_keras_form_are_refused():
    with pytest.raises(ValueError, match="concat"):
        build_model(build_network("densenet121", "cifar10"), 1)


def test_steps_change_the_weights_and_gradients_do_not():
    network = reference_network("small_cnn")
    model = build_model(network, 2)
    parts = compile_parts(model, 2)
    assert tuple(parts) == PARTS
    weights = [variable.numpy().copy() for variable in model.trainable_variables]
    assert parts["forward"]() > 0
    assert len(parts["gradients"]()) == len(weights)
    assert all((old == new.numpy()).all() for old, new in zip(weights, model.trainable_variables, strict=True))
    parts["step"]()
    assert any((old != new.numpy()).any() for old, new in zip(weights, model.trainable_variables, strict=True))


def test_a_crash_leaves_a_reason_for_what_was_not_reached(monkeypatch):
    monkeypatch.setattr(reference_steps, "BATCHES", {"small_cnn": (8, 16, 32)})
    report = measure_reference_steps(["small_cnn"], [sys.executable, "-c", STUB])
    times = {(step.batch, step.part): step for step in report.steps}
    assert len(times) == len(report.steps) == 9
    assert all(times[8, part].cpu_time_s > 0 and times[8, part].repetitions >= 5 for part in PARTS)
    assert all("SIGABRT" in times[batch, part].reason for batch in (16, 32) for part in PARTS)
    assert list(report.networks) == ["small_cnn"]
    assert report.model_validate_json(report.model_dump_json()) == report


def test_a_process_that_tells_nothing_is_an_error():
    with pytest.raises(LaunchError, match="ended with 1"):
        measure_reference_steps(["small_cnn"], [sys.executable, "-c", "raise SystemExit('no')"])
