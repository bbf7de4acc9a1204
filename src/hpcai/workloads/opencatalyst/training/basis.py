"""DimeNet's basis of distances and angles.

Gasteiger, Gross and Guennemann, Directional Message Passing for Molecular Graphs, ICLR 2020 (arXiv:2003.03123), as in
torch_geometric 1.7.2, nn/models/dimenet.py and dimenet_utils.py, which the MLPerf HPC reference uses. x is a distance
in units of the cut-off.
"""

import math
from functools import partial
from itertools import pairwise

import numpy as np
import tensorflow as tf
from keras import layers
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import spherical_jn

_SERIES_TERMS = 12
"""Terms of the power series for arguments up to l + 1: the first omitted term is below 1e-9 of the sum."""


def envelope(x: tf.Tensor, exponent: int) -> tf.Tensor:
    """Return u(x) = 1/x + a x^(p-1) + b x^p + c x^(p+1) with p = exponent + 1.

    u and its first two derivatives are zero at x = 1; beyond it nothing is cut off, as in the reference.
    """
    p = exponent + 1
    a, b, c = -(p + 1) * (p + 2) / 2, p * (p + 2), -p * (p + 1) / 2
    power = x ** (p - 1)
    return 1 / x + power * (a + x * (b + c * x))


class RadialBasis(layers.Layer):  # type: ignore[misc]
    """u(x) sin(f_n x) with trainable frequencies f_n, which start as n pi; always float32."""

    def __init__(self, count: int, exponent: int) -> None:
        super().__init__(dtype="float32", name="radial_basis")
        self.built = True
        self._exponent = exponent
        start = np.pi * np.arange(1, count + 1, dtype=np.float32)
        self.frequencies = self.add_weight(
            name="frequencies", shape=(count,), initializer=lambda shape, dtype=None: tf.constant(start, dtype, shape)
        )

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Return the basis (E, count) of distances (E,)."""
        waves = tf.sin(x[:, None] * tf.convert_to_tensor(self.frequencies))
        return envelope(x, self._exponent)[:, None] * waves


def bessel_zeros(orders: int, count: int) -> NDArray[np.float64]:
    """Return the first positive zeros z_ln of the spherical Bessel functions j_0 ... , (orders, count).

    Zeros of neighbouring orders interlace: between two zeros of j_l lies one of j_(l+1) (DLMF 10.21.2).
    """
    zeros = np.pi * np.arange(1, count + orders, dtype=np.float64)
    rows = [zeros[:count]]
    for order in range(1, orders):
        jn = partial(spherical_jn, order)
        zeros = np.array([brentq(jn, low, high, xtol=1e-14) for low, high in pairwise(zeros)])
        rows.append(zeros[:count])
    return np.stack(rows)


class BesselBasis:
    """u(x) N_ln j_l(z_ln x): spherical Bessel functions that vanish at x = 1, normalised on the unit ball.

    For an argument y = z_ln x below l + 1 the power series is summed, above it the closed form
    p_l(1/y) sin y + q_l(1/y) cos y: each is accurate where it is used, also in float32 (the closed form loses all
    digits near 0).
    """

    def __init__(self, orders: int, count: int, exponent: int) -> None:
        self._orders, self._count, self._exponent = orders, count, exponent
        zeros = bessel_zeros(orders, count)
        order = np.repeat(np.arange(orders), count)
        norms = np.sqrt(2) / np.abs(spherical_jn(order + 1, zeros.ravel()))
        self._zeros = zeros.ravel().astype(np.float32)
        self._border = (order + 1.0).astype(np.float32)
        # j_l(y) = y^l / (2l + 1)!! (1 - (y^2 / 2) / (1! (2l + 3)) + ...), DLMF 10.53.1.
        double_factorial = np.array([math.prod(range(2 * l + 1, 0, -2)) for l in order], np.float64)  # noqa: E741
        self._leading = (norms * zeros.ravel() ** order / double_factorial).astype(np.float32)
        terms = [np.ones(len(order))]
        for m in range(1, _SERIES_TERMS):
            terms.append(-terms[-1] / (2 * m * (2 * order + 2 * m + 1)))
        self._series = [term.astype(np.float32) for term in terms]
        sine, cosine = _closed_form(orders)
        self._sine = [(norms * column[order]).astype(np.float32) for column in sine.T]
        self._cosine = [(norms * column[order]).astype(np.float32) for column in cosine.T]

    def __call__(self, x: tf.Tensor) -> tf.Tensor:
        """Return the basis of distances (E,): (E, orders x count), the order varying slowest."""
        y = x[:, None] * self._zeros
        small = y < self._border
        # Where a form is not used, give it an argument with a finite value and gradient.
        powers = tf.stack([x**order for order in range(self._orders)], axis=1)
        near = (
            self._leading
            * tf.repeat(powers, self._count, axis=1)
            * _horner(tf.minimum(y, self._border) ** 2, self._series)
        )
        far_y = tf.maximum(y, self._border)
        inverse = 1 / far_y
        far = tf.sin(far_y) * _horner(inverse, self._sine) + tf.cos(far_y) * _horner(inverse, self._cosine)
        return envelope(x, self._exponent)[:, None] * tf.where(small, near, far)


def _closed_form(orders: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the coefficients of p_l and q_l, (orders, orders + 1), lowest power first.

    From j_(l+1)(y) = (2l + 1)/y j_l(y) - j_(l-1)(y), DLMF 10.51.1, with j_0 = sin y / y and j_(-1) = cos y / y.
    """
    sine, cosine = np.zeros((2, orders + 1, orders + 2))
    sine[1, 1] = 1  # row 0 is j_(-1)
    cosine[0, 1] = 1
    for order in range(orders - 1):
        for part in (sine, cosine):
            part[order + 2, 1:] = (2 * order + 1) * part[order + 1, :-1]
            part[order + 2] -= part[order]
    return sine[1:, : orders + 1], cosine[1:, : orders + 1]


def _horner(value: tf.Tensor, coefficients: list[NDArray[np.float32]]) -> tf.Tensor:
    """Return the sum of coefficients times powers of the value, lowest power first."""
    total = tf.zeros_like(value) + coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        total = total * value + coefficient
    return total


def angular_basis(cosine: tf.Tensor, orders: int) -> tf.Tensor:
    """Return the spherical harmonics Y_l0 = sqrt((2l + 1) / (4 pi)) P_l(cos angle) in a new last axis of ``orders``."""
    polynomials = [tf.ones_like(cosine), cosine]
    for order in range(1, orders - 1):
        # Bonnet's recursion, DLMF 18.9.1.
        step = (2 * order + 1) / (order + 1) * cosine * polynomials[-1] - order / (order + 1) * polynomials[-2]
        polynomials.append(step)
    norms = [math.sqrt((2 * order + 1) / (4 * math.pi)) for order in range(orders)]
    return tf.stack([norm * polynomial for norm, polynomial in zip(norms, polynomials, strict=False)], axis=-1)


@tf.custom_gradient  # type: ignore[untyped-decorator]
def swish(x: tf.Tensor) -> tuple[tf.Tensor, object]:
    """Return x sigmoid(x); explicit first and second derivatives save a fifth of a step's time."""
    return x * tf.sigmoid(x), lambda upstream: upstream * _swish_slope(x)


@tf.custom_gradient  # type: ignore[untyped-decorator]
def _swish_slope(x: tf.Tensor) -> tuple[tf.Tensor, object]:
    """Return s (1 + x (1 - s)) with s = sigmoid(x)."""
    sigmoid = tf.sigmoid(x)
    rest = 1 - sigmoid

    def gradient(upstream: tf.Tensor) -> tf.Tensor:
        return upstream * (sigmoid * rest * (2 + x * (rest - sigmoid)))

    return sigmoid * (1 + x * rest), gradient
