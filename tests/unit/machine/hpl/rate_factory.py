"""Rates of BLAS routines measured in the tests themselves, as often as a shared machine needs."""

from collections.abc import Mapping

from hpcai.config.prediction import HplTest
from hpcai.core.disturbance import Tolerance
from hpcai.machine.hpl.blas_rates import BlasReport, RatesInTurn
from hpcai.machine.hpl.library import BlasLibrary

UPDATE = {"dgemm", "dtrsm"}
"""The routines without whose rates nothing is known of an HPL."""
MOST_TAKES = 20


def take_until_timed(test: Mapping[str, int], blas: BlasLibrary | None = None) -> BlasReport:
    """Take the rates until those of UPDATE are there: repetitions without a core to themselves do not count."""
    rates = RatesInTurn([test], Tolerance(others_ratio=1.0, repeats=0), blas)
    for _ in range(MOST_TAKES):
        rates.take(HplTest.model_validate(dict(test)))
        report = rates.report()
        if report.reason or all(rate.rate_flop_per_s for rate in report.rates if rate.routine in UPDATE):
            break
    return report
