"""One step at the official size: 56 million parameters, a frame of 768 x 1152."""

import resource

import numpy as np
import pytest
import tensorflow as tf
from unit.workloads.deepcam.training.deepcam_plans import SEEDS, make_workload

from hpcai.workloads.deepcam.data.climate import Grid, make_frame
from hpcai.workloads.deepcam.training.workload import DeepCam


@pytest.mark.slow
def test_a_step_at_the_official_size_gives_finite_values() -> None:
    data, labels, _ = make_frame(Grid(768, 1152), np.random.default_rng(1))
    plan = make_workload(official=True, recipe={"global_batch": 1}).plan
    lowest, highest = data.min((0, 1)), data.max((0, 1))
    workload = DeepCam(plan, {"minval": tuple(lowest.tolist()), "maxval": tuple(highest.tolist())})
    model, optimizer = workload.build_model(SEEDS), workload.build_optimizer()
    optimizer.build(model.trainable_variables)

    def step(frames: tf.Tensor, classes: tf.Tensor) -> tuple[tf.Tensor, list[tf.Tensor]]:
        with tf.GradientTape() as tape:
            loss = workload.loss(model, (frames, classes), tf.zeros(2, tf.int32))
        gradients = tape.gradient(loss, [variable.value for variable in model.trainable_variables])
        optimizer.apply(gradients, model.trainable_variables)
        return loss, [tf.reduce_max(tf.abs(gradient)) for gradient in gradients]

    loss, largest = tf.function(step, autograph=False)(tf.constant(data[None]), tf.constant(labels[None]))
    # Three classes by chance: ln 3, somewhat off because the decoder's outputs are not small.
    assert 0.5 < float(loss) < 3
    assert len(largest) == 301
    assert np.isfinite(largest).all()
    assert min(float(value) for value in largest) > 0
    weights = [variable.numpy() for variable in model.trainable_variables]
    assert sum(weight.size for weight in weights) == 56_454_720
    assert all(np.isfinite(weight).all() for weight in weights)
    peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    assert peak_bytes < 12 * 2**30
