"""OpenCatalyst: DimeNet++ predicts the forces on the atoms of catalysts (MLPerf HPC reference, open_catalyst/)."""

import math
from typing import Any, ClassVar

import keras
import numpy as np
import tensorflow as tf
from mlperf_logging.mllog import constants
from numpy.typing import NDArray

from hpcai.core.errors import DatasetError
from hpcai.core.messages import Message, at
from hpcai.training.work import LayerWork
from hpcai.training.workload import Batch, Streams, Workload
from hpcai.workloads.opencatalyst.mlperf import MLPERF
from hpcai.workloads.opencatalyst.settings import OpenCatalystBenchmark
from hpcai.workloads.opencatalyst.training.graphs import Graphs, Room, join_graphs, parse_graph
from hpcai.workloads.opencatalyst.training.model import DimeNetPlusPlus
from hpcai.workloads.opencatalyst.training.optimizer import TorchAdamW
from hpcai.workloads.opencatalyst.training.work import GraphSize, dimenet_layers

NO_FORCE_UNIT = Message(
    "workload.no_force_unit",
    "found no statistics 'force_standard_deviation' in the manifest, expected it, because "
    "recipe.force_standard_deviation is 'training'; prepare the dataset again",
)

COMPONENTS = 3
BETAS = (0.9, 0.999)
EPSILON = 1e-8
"""torch.optim.AdamW's defaults, which the reference keeps (open_catalyst/ocpmodels/trainers/base_trainer.py)."""


class OpenCatalyst(Workload[OpenCatalystBenchmark]):
    """DimeNet++ at the size set in its benchmark file."""

    weighted: ClassVar[bool] = True
    mlperf_name: ClassVar[str] = MLPERF.name
    quality_metric: ClassVar[str] = MLPERF.quality_metric
    quality_unit: ClassVar[str] = MLPERF.quality_unit
    higher_is_better: ClassVar[bool] = False
    quality_key: ClassVar[str] = "eval_error"

    @property
    def force_unit(self) -> float:
        """Unit of the forces inside the model, eV/Angstrom.

        Raises
        ------
        DatasetError
            If it is to come from the training data and the manifest lacks it.
        """
        setting = self.benchmark.recipe.force_standard_deviation
        if setting != "training":
            return setting
        try:
            return self.statistics["force_standard_deviation"][0]
        except (KeyError, IndexError):
            raise DatasetError(at(str(self.benchmark.data.dataset), NO_FORCE_UNIT())) from None

    def batch_spec(self) -> tuple[tf.TensorSpec, ...]:
        """Return the shapes of `Graphs`: room for the samples of a micro-batch."""
        return self._room(self.plan.micro_batch).spec()

    def _room(self, samples: int) -> Room:
        """Return the room of a batch."""
        capacity = self.benchmark.data.capacity
        return Room.of(capacity, samples) if capacity else Room.for_dataset(self.statistics, samples)

    def parse(self, record: tf.Tensor, seed: tf.Tensor | None) -> Batch:  # noqa: ARG002
        """Return the parts of `hpcai.workloads.opencatalyst.training.graphs.Sample`; there is no augmentation."""
        return tuple(parse_graph(record))

    def collate(self, samples: tf.data.Dataset, size: int) -> tf.data.Dataset:
        """Join graphs to batches of a fixed room; the padding atom and edges do not count."""
        return join_graphs(samples, size, self._room(size), self.benchmark.data.max_neighbours)

    def build_model(self, seeds: Streams) -> keras.Model:
        """Return the network in the precision of the plan; variables and energies are float32."""
        return DimeNetPlusPlus(self.benchmark, self.policy, seeds.weights)

    def build_optimizer(self) -> keras.optimizers.Optimizer:
        """Return AdamW with decay on every weight."""
        decay = self.benchmark.recipe.weight_decay
        return TorchAdamW(self.learning_rate(0), weight_decay=decay, beta_1=BETAS[0], beta_2=BETAS[1], epsilon=EPSILON)

    def learning_rate(self, step: int) -> float:
        """Return base x (factor (1 - s/W) + s/W) up to step W, then base x decay^(milestones reached).

        MLPerf HPC reference, open_catalyst/ocpmodels/common/utils.py, warmup_lr_lambda.
        """
        recipe = self.benchmark.recipe
        if step <= recipe.warmup_steps and recipe.warmup_steps:
            done = step / recipe.warmup_steps
            return recipe.base_learning_rate * (recipe.warmup_factor * (1 - done) + done)
        reached = sum(boundary <= step for boundary in recipe.decay_steps)
        return float(recipe.base_learning_rate * recipe.decay_factor**reached)

    def loss(self, model: keras.Model, batch: Batch, seed: tf.Tensor) -> tf.Tensor:  # noqa: ARG002
        """Return the coefficient x sum of |errors| of the free atoms' force components x the weight of an atom.

        Summed and divided by the sum of the weights, it is the loss per free atom of the whole global batch, as in the
        reference, which sums the atoms over its ranks (ocpmodels/trainers/mlperf_forces_trainer.py). The reference's
        term for the energy has the coefficient 0 and is left out.
        """
        graphs = Graphs(*batch)
        forces = model.forces(graphs.positions, graphs.structure)
        errors = tf.reduce_sum(tf.abs(forces - graphs.forces / self.force_unit), axis=1)
        return self.benchmark.recipe.force_coefficient * self._atom * tf.reduce_sum(errors * graphs.free)

    def weight(self, batch: Batch) -> tf.Tensor:
        """Return the number of free atoms x the weight of an atom."""
        return self._atom * tf.reduce_sum(Graphs(*batch).free)

    @property
    def _atom(self) -> float:
        """Weight of an atom: about 1 / room for atoms, but a power of two, to avoid rounding."""
        return 2.0 ** -round(math.log2(self._room(self.plan.micro_batch).atoms))

    def evaluate(self, model: keras.Model, batch: Batch, weights: tf.Tensor) -> tf.Tensor:
        """Return one row: samples, sum of |errors| over the components of all free atoms (eV/A), their number."""
        graphs = Graphs(*batch)
        forces = model.forces(graphs.positions, graphs.structure) * self.force_unit
        errors = tf.abs(tf.cast(forces, tf.float64) - tf.cast(graphs.forces, tf.float64))
        counts = (tf.gather(weights, graphs.graph) > 0) & (graphs.free > 0)
        counted = tf.where(counts[:, None], errors, tf.zeros_like(errors))
        components = COMPONENTS * tf.math.count_nonzero(counts, dtype=tf.float64)
        samples = tf.reduce_sum(tf.cast(weights, tf.float64))
        return tf.stack([samples, tf.reduce_sum(counted), components])[None]

    def quality(self, rows: NDArray[np.float64]) -> float:
        """Return the mean absolute error of the force components of all free atoms, eV/Angstrom."""
        _, errors, components = rows.sum(axis=0)
        return float(errors / components)

    def hyperparameters(self) -> dict[str, Any]:
        """Return the hyper-parameters that MLPerf HPC's rules for OpenCatalyst name."""
        recipe = self.benchmark.recipe
        return {
            constants.OPT_NAME: "AdamW",
            constants.OPT_BASE_LR: recipe.base_learning_rate,
            constants.OPT_LR_WARMUP_STEPS: recipe.warmup_steps,
            constants.OPT_LR_WARMUP_FACTOR: recipe.warmup_factor,
            constants.OPT_LR_DECAY_BOUNDARY_STEPS: list(recipe.decay_steps),
            constants.OPT_LR_DECAY_FACTOR: recipe.decay_factor,
        }

    def layers(self) -> tuple[LayerWork, ...]:
        """Return the linear layers for a graph of the training data's mean size; if unknown, for a full one."""
        return dimenet_layers(self.benchmark.model, GraphSize.of(self.benchmark.data, self.statistics))

    def batch_layers(self) -> tuple[LayerWork, ...]:
        """Return the linear layers for a sample's share of a batch's room: all its atoms, edges and paths."""
        samples = self.plan.micro_batch
        room, columns = self._room(samples), self.benchmark.data.max_neighbours
        share = GraphSize(room.atoms / samples, room.edges / samples, room.edges * columns / samples)
        return dimenet_layers(self.benchmark.model, share)
