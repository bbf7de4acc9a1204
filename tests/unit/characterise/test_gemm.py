"""GEMM rates."""

import pytest

from hpcai.characterise.gemm import GemmReport, GemmSample, best_of, measure_gemm, products, time_product
from hpcai.errors import ConfigError


def sample(rate: float, precision: str = "fp32", threads: int = 1, backend: str = "numpy") -> GemmSample:
    return GemmSample.model_validate(
        {
            "backend": backend,
            "precision": precision,
            "threads": threads,
            "size": 10,
            "duration_s": 2000 / rate,
            "rate_flop_per_s": rate,
        }
    )


def test_best_is_per_precision_and_threads_over_all_backends() -> None:
    samples = [sample(1.0), sample(3.0, backend="tensorflow"), sample(2.0), sample(5.0, "bf16"), sample(4.0, threads=2)]
    assert best_of(samples) == (samples[3], samples[1], samples[4])


def test_each_backend_multiplies() -> None:
    found = {(product.backend, product.precision) for product in products(("fp32", "bf16"), (64,))}
    assert found == {("numpy", "fp32"), ("tensorflow", "fp32"), ("tensorflow", "bf16")}


def test_rate_is_work_by_time() -> None:
    product = products(("fp32",), (128,))[0]
    timed = time_product(product, threads=1)
    assert product.work_flop == 2 * 128**3
    assert timed.rate_flop_per_s == pytest.approx(2 * 128**3 / timed.duration_s)


def test_factors_differ_so_that_no_library_can_save_half_of_the_work() -> None:
    left, right = products(("fp32",), (64,))[0].run.args  # type: ignore[attr-defined]
    assert (left != right).any()
    assert (left != right.T).any()


def test_more_threads_than_cores_is_an_error() -> None:
    with pytest.raises(ConfigError, match="threads: found 100000, expected at most"):
        measure_gemm([100_000])


def test_measured_in_a_process_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "7")  # what the caller has set does not count
    report = GemmReport.model_validate_json(measure_gemm([1]))
    assert {one.threads for one in report.samples} == {1}
    assert {one.precision for one in report.best} == {"fp32", "bf16"}
    for best in report.best:
        assert best.rate_flop_per_s == max(
            one.rate_flop_per_s for one in report.samples if one.precision == best.precision
        )
