"""Layers of a benchmark as input of the data-parallel training model: kinds, shapes, parameters."""

import argparse
import importlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpcai.config.plan_file import read_plan
from hpcai.config.runs import RunPlan
from hpcai.core.lean_imports import NEEDLESS, without
from hpcai.machine.work.step import Statistics, read_statistics, workload_of_one_rank, write_report
from hpcai.predict.training.layers import LayerList

if TYPE_CHECKING:
    from hpcai.training.workload import Workload
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from hpcai.machine.work.layers_trace import TracedStep
from hpcai.predict.training.layers import Layer, LayerKind

if TYPE_CHECKING:
    import tensorflow as tf

Shape = tuple[int, ...]
PRODUCTS = ("Conv2D", "Conv3D", "Conv2DBackpropInput", "DepthwiseConv2dNative", "MatMul", "BatchMatMulV2")
ELEMENTWISE: dict[str, LayerKind] = {
    "FusedBatchNormV3": "batch_norm",
    "Relu": "relu",
    "LeakyRelu": "relu",
    "Tanh": "relu",
    "Sigmoid": "relu",
    "Softmax": "softmax",
    "MaxPool": "max_pool",
    "MaxPool3D": "max_pool",
    "AvgPool": "average_pool",
    "AvgPool3D": "average_pool",
    "Mean": "average_pool",
    "AddV2": "add",
    "ConcatV2": "concat",
}
SAME_PASSES = ("Tanh", "Sigmoid", "LeakyRelu")
"""Listed as ReLU: equal memory traffic, arithmetic not modelled."""
SAME_VALUES = ("ReadVariableOp", "Cast", "Identity", "Reshape", "Transpose", "Squeeze", "ExpandDims", "SplitV")
"""Operations that pass on the values of their first input, or part of them."""
HAND_ON = (*SAME_VALUES, "MaxPool", "MaxPool3D", "BiasAdd")
"""Operations allowed between a product and its bias."""
BOOKKEEPING = (
    *("Const", "Placeholder", "ReadVariableOp", "Identity", "IdentityN", "NoOp", "Reshape", "Pack", "Unpack", "Shape"),
    *("StridedSlice", "Squeeze", "ExpandDims", "EnsureShape", "StopGradient", "Fill", "Range", "AssignVariableOp"),
)
"""Operations with negligible data movement."""


class Read(NamedTuple):
    """Layers of a graph, and the parts that are not layers."""

    layers: tuple[Layer, ...]
    not_modelled: tuple[str, ...]


def read_layers(step: TracedStep) -> Read:
    """Return the layers of a traced step, each for one sample, and what the list omits.

    Parameters count at the first layer that uses them, all others in one last entry of kind "other".
    """
    reader = _Reader(step)
    for operation in step.operations:
        reader.take(operation)
    return Read(reader.finish(), tuple(_left_out(step, reader.listed)))


class _Reader:
    """Collects layers in the order of operations."""

    def __init__(self, step: TracedStep) -> None:
        self._step = step
        self._left = dict(step.sizes)
        self._layers: dict[str, Layer] = {}
        self._names: set[str] = set()
        self.listed: set[str] = set()

    def take(self, operation: "tf.Operation") -> None:
        """Add the layer of an operation, if it is one."""
        if operation.type in PRODUCTS:
            self._add(operation, _product(operation, self._fold))
        elif operation.type in ("BiasAdd", "AddV2") and self._take_bias(operation):
            self.listed.add(operation.name)
        elif operation.type in ELEMENTWISE and self._is_layer(operation):
            self._add(operation, self._elementwise(operation))

    def finish(self) -> tuple[Layer, ...]:
        """Return all layers, and the parameters outside all layers."""
        rest = sum(self._left.values())
        others = (Layer("other parameters", "other", (rest,), (rest,), parameters=rest),) if rest else ()
        return (*self._layers.values(), *others)

    def _add(self, operation: "tf.Operation", layer: Layer) -> None:
        kernels = operation.inputs[1:3] if layer.kind == "batch_norm" else operation.inputs
        owned = sum(self._claim(one) for one in kernels)
        data = operation.inputs[_data_input(operation, self._variable)]
        self._layers[operation.name] = replace(
            layer,
            name=self._name(operation),
            parameters=owned,
            needs_input_gradient=data.op.name in self._step.trained,
        )
        self.listed.add(operation.name)

    def _elementwise(self, operation: "tf.Operation") -> Layer:
        kind = ELEMENTWISE[operation.type]
        before, after = self._fold(operation.inputs[0].shape), self._fold(operation.outputs[0].shape)
        if kind == "concat":
            before = after
        if kind in ("max_pool", "average_pool") and operation.type != "Mean":
            kernel, strides = (tuple(operation.get_attr(name)[1:-1]) for name in ("ksize", "strides"))
            return Layer("", kind, before, after, kernel=kernel, strides=strides)
        return Layer("", kind, before, after)

    def _is_layer(self, operation: "tf.Operation") -> bool:
        """Whether an element-wise operation acts on the model's activations, not on shapes, geometry or the loss."""
        if self._scope(operation) is None or operation.name not in self._step.trained:
            return False
        shapes = [one.shape for one in operation.inputs if one.shape.rank]
        if operation.type == "AddV2":
            return len(shapes) == 2 and shapes[0] == shapes[1] and shapes[0].rank > 1
        return bool(shapes) and shapes[0].rank > (2 if operation.type == "Mean" else 1)

    def _take_bias(self, operation: "tf.Operation") -> bool:
        """Add a bias to the preceding product; return whether it is a bias."""
        biases = [
            one
            for one in operation.inputs
            if self._variable(one) is not None and one.shape.rank and math.prod(one.shape) == one.shape[-1]
        ]
        if len(biases) != 1:
            return False
        before = next((one for one in operation.inputs if one is not biases[0]), None)
        while before is not None and before.op.type not in PRODUCTS and before.op.type in HAND_ON:
            before = before.op.inputs[0]
        if before is None or before.op.type not in PRODUCTS or before.op.name not in self._layers:
            return False
        layer = self._layers[before.op.name]
        self._layers[before.op.name] = replace(layer, bias=True, parameters=layer.parameters + self._claim(biases[0]))
        return True

    def _claim(self, tensor: "tf.Tensor") -> int:
        """Return the number of a tensor's parameters that no layer has yet."""
        variable = self._variable(tensor)
        if variable is None:
            return 0
        owned: int = min(self._left[variable], math.prod(tensor.shape))
        self._left[variable] -= owned
        return owned

    def _variable(self, tensor: "tf.Tensor") -> str | None:
        """Return the trainable variable behind a tensor or part of it."""
        operation = tensor.op
        while operation.type in SAME_VALUES or operation.type == "Split":
            operation = operation.inputs[1 if operation.type == "Split" else 0].op
        return operation.name if operation.name in self._step.sizes else None

    def _fold(self, shape: "tf.TensorShape") -> Shape:
        """Return the shape of one sample; several rows per sample become positions or additional height."""
        first, *others = tuple(int(size) for size in shape)
        positions = first / self._step.samples
        if positions == 1:
            return tuple(others)
        if len(others) == 1:
            return (max(round(positions), 1), *others)
        return (max(round(positions * others[0]), 1), *others[1:])

    def _scope(self, operation: "tf.Operation") -> str | None:
        return _layer_of(operation, self._step.scopes)

    def _name(self, operation: "tf.Operation") -> str:
        """Return a name made of an operation's scopes, without the numbers added by tracing."""
        scopes = [part for part in operation.name.split("/")[:-1] if part != "gradient_tape"]
        plain = "/".join(re.sub(r"_\d+$", "", part) for part in scopes[1:]) or operation.name
        if operation.name.startswith("gradient_tape/"):
            plain = f"force of {plain}"
        if operation.type == "DepthwiseConv2dNative":
            plain += " depthwise"
        name = plain if plain not in self._names else operation.name
        self._names.add(name)
        return name


def _product(operation: "tf.Operation", fold: Callable[["tf.TensorShape"], Shape]) -> Layer:
    """Return the layer of a convolution or a matrix product, without name and parameters."""
    inputs, output = operation.inputs, operation.outputs[0]
    if operation.type == "MatMul":
        wide = int(inputs[0].shape[0 if operation.get_attr("transpose_a") else 1])
        after = fold(output.shape)
        return Layer("", "dense", (*after[:-1], wide), after)
    if operation.type == "BatchMatMulV2":
        wide = int(inputs[0].shape[-2 if operation.get_attr("adj_x") else -1])
        *rows, columns = fold(output.shape)
        return Layer("", "dense", (math.prod(rows), wide), (math.prod(rows), columns))
    kernel = tuple(int(size) for size in inputs[1].shape[:-2])
    strides = tuple(int(step) for step in operation.get_attr("strides")[1:-1])
    kind: LayerKind = "depthwise" if operation.type == "DepthwiseConv2dNative" else "convolution"
    before, after = inputs[0].shape, output.shape
    if operation.type == "Conv2DBackpropInput":
        before = inputs[2].shape
    return Layer("", kind, fold(before), fold(after), kernel=kernel, strides=strides)


def _data_input(operation: "tf.Operation", variable: Callable[["tf.Tensor"], str | None]) -> int:
    """Return which input of an operation is the data, not the kernel."""
    if operation.type == "Conv2DBackpropInput":
        return 2
    return 1 if operation.type == "MatMul" and variable(operation.inputs[0]) is not None else 0


def _layer_of(operation: "tf.Operation", scopes: dict[str, str]) -> str | None:
    """Return the innermost layer in which an operation was traced."""
    for part in reversed(operation.name.split("/")[:-1]):
        for name in (re.sub(r"_\d+$", "", part), part):
            if name in scopes:
                return name
    return None


def _left_out(step: TracedStep, listed: set[str]) -> Iterator[str]:
    """Yield what no listed layer contains: layer classes with their operations, and operations outside layers."""
    rest: dict[str, set[str]] = {}
    for operation in step.operations:
        if operation.name in listed or operation.type in BOOKKEEPING:
            continue
        layer = _layer_of(operation, step.scopes)
        rest.setdefault("outside of layers" if layer is None else step.scopes[layer], set()).add(operation.type)
    for place, kinds in sorted(rest.items()):
        yield f"{place}: {', '.join(sorted(kinds))}"
    alike = sorted({one.type for one in step.operations if one.name in listed} & set(SAME_PASSES))
    if alike:
        yield f"arithmetic of {', '.join(alike)}: listed as ReLU, which passes through memory alike"


MODELLED_OPTIMIZERS = ("SGD", "MomentumSGD")
"""The update is modelled as gradient descent with momentum."""


def list_layers(plan: RunPlan, statistics: Statistics | None = None) -> LayerList:
    """Return the layers of a plan's model for one sample, from the graph of its training loss.

    Nothing is executed: the model is built and its loss is traced for the micro-batch of one rank.

    Parameters
    ----------
    plan
        What is trained.
    statistics
        Statistics of the training data from the manifest; only graphs need them.

    Returns
    -------
    LayerList
        Its convolutions and dense layers do the multiply-adds of `hpcai.training.workload.Workload.batch_layers`: for
        a batch as compiled, including the padding of a batch of graphs. Its parameters are all trainable ones.

    Raises
    ------
    HpcaiError
        If the model cannot be built from the arguments.
    """
    from hpcai.machine.work.layers_trace import trace_step

    workload = workload_of_one_rank(plan, statistics)
    read = read_layers(trace_step(workload))
    benchmark = plan.benchmark
    return LayerList(
        name=benchmark.name,
        title=benchmark.title,
        samples_per_epoch=benchmark.data.train_samples,
        layers=read.layers,
        source=f"graph of the training loss of {benchmark.name} as TensorFlow traces it",
        not_modelled=(*read.not_modelled, *_optimizer(workload)),
    )


def _optimizer(workload: "Workload[Any]") -> tuple[str, ...]:
    name = type(workload.build_optimizer()).__name__
    if name in MODELLED_OPTIMIZERS:
        return ()
    return (f"optimizer {name}: the update is modelled as gradient descent with momentum",)


def main(arguments: list[str] | None = None) -> None:
    """Write the layers of a plan's model as JSON."""
    parser = argparse.ArgumentParser(prog="python -m hpcai.machine.work.layers", description=main.__doc__)
    parser.add_argument("--plan", type=Path, required=True, help="plan.json of a run")
    parser.add_argument("--manifest", type=Path, help="manifest.json of the dataset; only graphs need it")
    parser.add_argument("--output", type=Path, help="file for the list; by default it is printed")
    given = parser.parse_args(arguments)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    # Tracing needs no accelerator and must not take one from a run.
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    with without(*NEEDLESS):
        importlib.import_module("tensorflow")
    write_report(list_layers(read_plan(given.plan), read_statistics(given.manifest)), given.output)


if __name__ == "__main__":
    main()
