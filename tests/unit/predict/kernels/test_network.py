"""Training follows the source's two rules: a lower rate after 15 epochs without a gain, an end after 20."""

import numpy as np
import pytest

from hpcai.predict.kernels.network import BATCH_CASES, REDUCE_AFTER_EPOCHS, STOP_AFTER_EPOCHS, NetworkTrainer


@pytest.fixture(scope="module")
def trainer():
    return NetworkTrainer(2)


def cases(count, seed=1):
    inputs = np.random.default_rng(seed).standard_normal((count, 2)).astype("float32")
    return inputs, np.maximum(inputs[:, 0], inputs[:, 1])


def follow(trainer, losses, monkeypatch):
    """Train on made validation losses; return the learning rate of each epoch, and what training returned."""
    rates, given = [], iter(losses)

    def run_epoch(*_):
        rates.append(float(trainer._optimizer.learning_rate))
        trainer._model.layers[-1].bias.assign([float(len(rates))])
        return next(given)

    monkeypatch.setattr(trainer, "_run_epoch", run_epoch)
    return rates, trainer.train(cases(BATCH_CASES), cases(4), seed=1)


def test_the_rate_falls_after_15_epochs_without_a_gain_and_training_ends_after_20(trainer, monkeypatch):
    rates, trained = follow(trainer, [3.0, 2.0, *[2.5] * 100], monkeypatch)
    assert trained.epochs == len(rates) == 2 + STOP_AFTER_EPOCHS
    assert rates[: 2 + REDUCE_AFTER_EPOCHS] == pytest.approx([1e-3] * 17)
    assert rates[2 + REDUCE_AFTER_EPOCHS :] == pytest.approx([1e-4] * 5)


def test_a_gain_starts_the_count_again(trainer, monkeypatch):
    rates, trained = follow(trainer, [3.0, *[3.5] * 17, 2.9, *[3.5] * 100], monkeypatch)
    assert trained.epochs == 19 + STOP_AFTER_EPOCHS
    assert rates[-1] == pytest.approx(1e-5)


def test_the_best_weights_are_kept(trainer, monkeypatch):
    _, trained = follow(trainer, [3.0, 2.0, 1.0, *[2.5] * 100], monkeypatch)
    assert trained.validation_loss == 1.0
    assert trained.weights[-1] == pytest.approx([3.0])


def test_a_function_is_learned_and_the_loss_is_that_of_the_kept_weights(trainer):
    training, validation = cases(256), cases(64, seed=2)
    trained = trainer.train(training, validation, seed=1)
    values = validation[0]
    for weights, biases in zip(trained.weights[:-2:2], trained.weights[1:-2:2], strict=True):
        values = np.maximum(values @ weights + biases, 0)
    outputs = (values @ trained.weights[-2] + trained.weights[-1])[:, 0]
    assert np.mean((outputs - validation[1]) ** 2) == pytest.approx(trained.validation_loss, rel=1e-3)
    assert trained.validation_loss < 0.01


def test_a_start_does_not_remember_the_training_before(trainer):
    first = trainer.train(cases(64), cases(16, seed=2), seed=1)
    trainer.train(cases(64), cases(16, seed=2), seed=2)
    again = trainer.train(cases(64), cases(16, seed=2), seed=1)
    assert again.epochs == first.epochs
    for one, other in zip(first.weights, again.weights, strict=True):
        assert np.array_equal(one, other)
