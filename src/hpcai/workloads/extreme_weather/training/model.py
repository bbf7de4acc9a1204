"""The weights of Faster R-CNN: ResNet-50, feature pyramid, region proposal network and box head.

One model in two parts that are called separately: `PYRAMID` turns images into feature maps, objectness and deltas;
`HEAD` turns regions into class scores and deltas. The selection of regions between them has no weights.
"""

import itertools
from collections.abc import Iterator

import keras
import numpy as np

from hpcai.config.runs import RunPlan
from hpcai.training.batch_norm import batch_norm
from hpcai.workloads.extreme_weather.data.container import CHANNELS, CLASSES
from hpcai.workloads.extreme_weather.settings import ExtremeWeatherBenchmark, ExtremeWeatherModel

PYRAMID, HEAD = "pyramid", "head"
OUTPUTS = len(CLASSES) + 1
"""Background and classes."""
EXPANSION = 4
"""Ratio of a bottleneck's output width to that of its 3x3 convolution."""
MAPS = 4
"""Feature maps that regions are taken from, P2 to P5."""


class _Builder:
    """Makes layers that share a type policy; each draws its weights with its own seed."""

    def __init__(self, settings: ExtremeWeatherModel, plan: RunPlan, policy: str, seed: int) -> None:
        self._settings = settings
        self._plan = plan
        self.policy = policy
        self._seeds = _seeds(seed)

    def convolution(self, filters: int, kernel: int, name: str, **options: object) -> keras.layers.Layer:
        """Return a convolution with SAME padding; in the backbone the default, He's initialisation without bias."""
        scheme = {"scale": 2.0, "mode": "fan_out", "distribution": "truncated_normal", "seed": next(self._seeds)}
        given = {"use_bias": False, "kernel_initializer": keras.initializers.VarianceScaling(**scheme), **options}
        return keras.layers.Conv2D(filters, kernel, padding="same", name=name, dtype=self.policy, **given)

    def pyramid_convolution(self, filters: int, kernel: int, name: str) -> keras.layers.Layer:
        """Return a convolution of the feature pyramid (tensorpack: variance scaling 1, fan in)."""
        initializer = keras.initializers.VarianceScaling(1.0, seed=next(self._seeds))
        return self.convolution(filters, kernel, name, use_bias=True, kernel_initializer=initializer)

    def proposal_convolution(self, filters: int, kernel: int, name: str, **options: object) -> keras.layers.Layer:
        """Return a convolution of the region proposal network (normal, standard deviation 0.01)."""
        return self.convolution(filters, kernel, name, use_bias=True, kernel_initializer=self._normal(0.01), **options)

    def dense(self, units: int, name: str, deviation: float | None = None, **options: object) -> keras.layers.Layer:
        """Return a dense layer; normal weights of a standard deviation, or variance scaling 1, fan in."""
        scaled = keras.initializers.VarianceScaling(1.0, seed=next(self._seeds))
        initializer = scaled if deviation is None else self._normal(deviation)
        return keras.layers.Dense(units, kernel_initializer=initializer, name=name, dtype=self.policy, **options)

    def normalised(self, inputs: keras.KerasTensor, name: str, *, relu: bool = True) -> keras.KerasTensor:
        """Return batch-normalised inputs, after a ReLU if wanted."""
        momentum, epsilon = self._settings.batch_norm_momentum, self._settings.batch_norm_epsilon
        layer = batch_norm(
            self._plan, momentum=momentum, epsilon=epsilon, name=f"{name}_normalisation", dtype=self.policy
        )
        outputs = layer(inputs)
        return self.relu(outputs) if relu else outputs

    def relu(self, inputs: keras.KerasTensor) -> keras.KerasTensor:
        """Return the positive part."""
        return keras.layers.ReLU(dtype=self.policy)(inputs)

    def reshape(self, inputs: keras.KerasTensor, *shape: int) -> keras.KerasTensor:
        """Return inputs in another shape."""
        return keras.layers.Reshape(shape, dtype=self.policy)(inputs)

    def _normal(self, deviation: float) -> keras.initializers.Initializer:
        return keras.initializers.RandomNormal(stddev=deviation, seed=next(self._seeds))


def _seeds(seed: int) -> Iterator[int]:
    """Yield seeds for initialisers; each must fit 31 bits."""
    for number in itertools.count():
        yield int(np.random.SeedSequence([seed, number]).generate_state(1)[0]) % (2**31 - 1)


def build_detector(benchmark: ExtremeWeatherBenchmark, plan: RunPlan, policy: str, seed: int) -> keras.Model:
    """Return the model with fresh weights.

    Inputs are normalised images (batch, height, width, 16) and features of regions (any number, resolution,
    resolution, filters). The part `PYRAMID` returns the maps P2 to P5, the objectness (batch, anchors) and the deltas
    (batch, anchors, 4); the part `HEAD` returns scores (n, 5) and deltas (n, 20).

    Parameters
    ----------
    benchmark
        Sizes.
    plan
        How batch norm is shared between ranks.
    policy
        Keras' type policy.
    seed
        Determines all weights.
    """
    settings, data = benchmark.model, benchmark.data
    build = _Builder(settings, plan, policy, seed)
    images = keras.Input((data.height, data.width, len(CHANNELS)), name="images")
    maps = _pyramid(build, _backbone(build, images, settings.blocks, settings.base_filters), settings.pyramid_filters)
    objectness, deltas = _proposal_head(build, maps[: len(settings.anchors.sizes)], len(settings.anchors.ratios))
    pyramid = keras.Model(images, [*maps[:MAPS], objectness, deltas], name=PYRAMID)
    resolution = settings.regions.resolution
    regions = keras.Input((resolution, resolution, settings.pyramid_filters), name="regions")
    head = keras.Model(regions, _box_head(build, regions, settings.head_units), name=HEAD)
    return keras.Model([images, regions], [*pyramid(images), *head(regions)], name="extreme_weather")


def kernels(model: keras.Model) -> list[keras.Variable]:
    """Return the variables with weight decay: kernels of convolutions and dense layers, no bias or batch norm."""
    return [variable for variable in model.trainable_variables if variable.name == "kernel"]


def _backbone(
    build: _Builder, images: keras.KerasTensor, blocks: tuple[int, ...], filters: int
) -> list[keras.KerasTensor]:
    """Return C2 to C5 of a ResNet v1.5: the 3x3 convolution of a stage's first bottleneck has the stride."""
    features = build.convolution(filters, 7, "stem", strides=2)(images)
    features = build.normalised(features, "stem")
    features = keras.layers.MaxPooling2D(3, 2, padding="same", dtype=build.policy)(features)
    stages = []
    for stage, count in enumerate(blocks):
        for block in range(count):
            stride = 2 if stage > 0 and block == 0 else 1
            name = f"stage_{stage + 1}_block_{block + 1}"
            features = _bottleneck(build, features, filters << stage, stride, name)
        stages.append(features)
    return stages


def _bottleneck(build: _Builder, inputs: keras.KerasTensor, filters: int, stride: int, name: str) -> keras.KerasTensor:
    """Return 1x1, 3x3 and 1x1 convolutions with batch norm, added to the inputs."""
    features = build.normalised(build.convolution(filters, 1, f"{name}_reduce")(inputs), f"{name}_reduce")
    features = build.convolution(filters, 3, f"{name}_middle", strides=stride)(features)
    features = build.normalised(features, f"{name}_middle")
    wide = filters * EXPANSION
    features = build.normalised(build.convolution(wide, 1, f"{name}_expand")(features), f"{name}_expand", relu=False)
    if inputs.shape[-1] != wide or stride > 1:
        projection = build.convolution(wide, 1, f"{name}_project", strides=stride)(inputs)
        inputs = build.normalised(projection, f"{name}_project", relu=False)
    return build.relu(keras.layers.Add(dtype=build.policy)([features, inputs]))


def _pyramid(build: _Builder, stages: list[keras.KerasTensor], filters: int) -> list[keras.KerasTensor]:
    """Return P2 to P6 (Lin et al. 2017): coarse maps are enlarged and added to finer ones."""
    added: list[keras.KerasTensor] = []
    for number, stage in reversed(list(enumerate(stages, 2))):
        lateral = build.pyramid_convolution(filters, 1, f"lateral_{number}")(stage)
        if added:
            larger = keras.layers.UpSampling2D(2, interpolation="nearest", dtype=build.policy)(added[-1])
            lateral = keras.layers.Add(dtype=build.policy)([lateral, larger])
        added.append(lateral)
    maps = [build.pyramid_convolution(filters, 3, f"output_{n}")(top) for n, top in enumerate(reversed(added), 2)]
    return [*maps, keras.layers.MaxPooling2D(1, 2, padding="same", dtype=build.policy)(maps[-1])]


def _proposal_head(
    build: _Builder, maps: list[keras.KerasTensor], ratios: int
) -> tuple[keras.KerasTensor, keras.KerasTensor]:
    """Return objectness (batch, anchors) and deltas (batch, anchors, 4) of the same layers on all levels."""
    filters = maps[0].shape[-1]
    shared = build.proposal_convolution(filters, 3, "proposal_shared", activation="relu")
    objectness = build.proposal_convolution(ratios, 1, "proposal_objectness")
    deltas = build.proposal_convolution(4 * ratios, 1, "proposal_deltas")
    hidden = [shared(level) for level in maps]
    return (
        _joined([build.reshape(objectness(level), -1) for level in hidden]),
        _joined([build.reshape(deltas(level), -1, 4) for level in hidden]),
    )


def _joined(parts: list[keras.KerasTensor]) -> keras.KerasTensor:
    """Return the anchors of all levels, one level after the other, in single precision."""
    joined = keras.layers.Concatenate(axis=1, dtype="float32")(parts) if len(parts) > 1 else parts[0]
    return keras.layers.Activation("linear", dtype="float32")(joined)


def _box_head(build: _Builder, regions: keras.KerasTensor, units: int) -> list[keras.KerasTensor]:
    """Return class scores (n, 5) and deltas (n, 20) of regions, in single precision."""
    features = keras.layers.Flatten(dtype=build.policy)(regions)
    for number in (1, 2):
        features = build.dense(units, f"hidden_{number}", activation="relu")(features)
    outputs = build.dense(OUTPUTS, "classes", 0.01)(features), build.dense(4 * OUTPUTS, "deltas", 0.001)(features)
    return [keras.layers.Activation("linear", dtype="float32")(output) for output in outputs]
