"""The basis of distances and angles against SciPy's definitions."""

import numpy as np
import pytest
import tensorflow as tf
from scipy.integrate import quad
from scipy.special import sph_harm_y, spherical_jn

from hpcai.workloads.opencatalyst.training.basis import (
    BesselBasis,
    RadialBasis,
    angular_basis,
    bessel_zeros,
    envelope,
    swish,
)

X = np.array([1e-3, 0.01, 0.05, 0.1, 0.17, 0.25, 0.33, 0.42, 0.5, 0.66, 0.8, 0.9, 0.99, 1.0], np.float32)


def exact_envelope(x: np.ndarray) -> np.ndarray:
    x = x.astype(np.float64)
    return 1 / x - 28 * x**5 + 48 * x**6 - 21 * x**7


def test_envelope() -> None:
    assert float(envelope(tf.constant(0.5), 5)) == 1.7109375
    assert float(envelope(tf.constant(1.0), 5)) == 0
    np.testing.assert_allclose(envelope(tf.constant(X), 5), exact_envelope(X), rtol=1e-5, atol=1e-5)
    with tf.GradientTape() as outer, tf.GradientTape() as inner:
        x = tf.constant(1.0)
        inner.watch(x)
        outer.watch(x)
        slope = inner.gradient(envelope(x, 5), x)
    assert float(slope) == pytest.approx(0, abs=1e-4)
    assert float(envelope(tf.constant(1.1), 5)) != 0  # nothing is cut off, as in the reference


def test_zeros_are_those_of_the_spherical_bessel_functions() -> None:
    zeros = bessel_zeros(7, 6)
    for order in range(7):
        np.testing.assert_allclose(spherical_jn(order, zeros[order]), 0, atol=1e-12)
        signs = np.sign(spherical_jn(order, np.linspace(0.05, zeros[order, -1] + 0.5, 4000)))
        assert np.count_nonzero(np.diff(signs)) == 6  # none is left out
    np.testing.assert_allclose(zeros[0], np.pi * np.arange(1, 7))


def test_bessel_basis_is_scipys_also_near_zero() -> None:
    zeros = bessel_zeros(7, 6)
    basis = BesselBasis(7, 6, 5)(tf.constant(X)).numpy().reshape(len(X), 7, 6)
    for order in range(7):
        for n in range(6):
            norm = np.sqrt(2) / abs(spherical_jn(order + 1, zeros[order, n]))
            exact = exact_envelope(X) * norm * spherical_jn(order, zeros[order, n] * X.astype(np.float64))
            scale = norm * np.abs(exact_envelope(X)) * 2e-6 + 1e-6
            np.testing.assert_array_less(np.abs(basis[:, order, n] - exact), 2e-5 * np.abs(exact) + 10 * scale)


def test_bessel_functions_are_normalised_on_the_unit_ball() -> None:
    zeros = bessel_zeros(3, 2)
    for order in range(3):
        for zero in zeros[order]:
            norm = np.sqrt(2) / abs(spherical_jn(order + 1, zero))
            integral = quad(lambda x: (norm * spherical_jn(order, zero * x)) ** 2 * x**2, 0, 1)[0]  # noqa: B023
            assert integral == pytest.approx(1)


def test_slopes_of_the_bessel_basis_are_exact_on_both_sides_of_the_border() -> None:
    zeros = bessel_zeros(7, 6)
    x = tf.constant(X[2:])
    basis = BesselBasis(7, 6, 5)
    with tf.GradientTape() as tape:
        tape.watch(x)
        values = basis(x) / envelope(x, 5)[:, None]
    slopes = tape.jacobian(values, x)
    wide = X[2:].astype(np.float64)
    for order in (0, 3, 6):
        for n in (0, 5):
            norm = np.sqrt(2) / abs(spherical_jn(order + 1, zeros[order, n]))
            exact = norm * zeros[order, n] * spherical_jn(order, zeros[order, n] * wide, derivative=True)
            ours = np.diag(slopes.numpy()[:, order * 6 + n])[:-1]
            np.testing.assert_allclose(ours, exact[:-1], rtol=2e-3, atol=2e-3 * np.abs(exact).max())


def test_angular_basis_is_the_zonal_spherical_harmonics() -> None:
    angles = np.linspace(0, np.pi, 13)
    basis = angular_basis(tf.constant(np.cos(angles), tf.float32), 7).numpy()
    for order in range(7):
        np.testing.assert_allclose(basis[:, order], sph_harm_y(order, 0, angles, 0).real, atol=2e-6)
    assert angular_basis(tf.constant([[0.5]]), 1).shape == (1, 1, 1)


def test_radial_basis_has_trainable_frequencies() -> None:
    layer = RadialBasis(6, 5)
    exact = exact_envelope(X)[:, None] * np.sin(np.pi * np.arange(1, 7) * X[:, None].astype(np.float64))
    np.testing.assert_allclose(layer(tf.constant(X)), exact, rtol=1e-4, atol=1e-4)
    assert [tuple(v.shape) for v in layer.trainable_weights] == [(6,)]


def test_swish_and_its_derivatives() -> None:
    x = tf.constant(np.linspace(-6, 6, 25), tf.float32)

    def derivatives(function: object) -> list[np.ndarray]:
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                value = function(x)  # type: ignore[operator]
            slope = inner.gradient(value, x)
        return [value.numpy(), slope.numpy(), outer.gradient(slope, x).numpy()]

    for ours, plain in zip(derivatives(swish), derivatives(lambda x: x * tf.sigmoid(x)), strict=True):
        np.testing.assert_allclose(ours, plain, atol=1e-6)
