"""Columns of the tables of rounds, submissions and their analysis; units end the names."""

from hpcai.catalogue.tables import columns_of

RUN_COLUMNS = columns_of("mlperf_runs")
"""Table ``mlperf_runs``: one row per log.

``logged_nodes`` is the number in the log, even where another number counts. ``staging_in_run_s`` is the part of
``staging_s`` on the clock, ``evaluation_alone_s`` the part of ``evaluation_s`` without concurrent training. The
submission's ``scaling_factor`` is NaN without a ``scaling.json``. ``reason`` explains missing or unusual quantities.
"""

RESULT_COLUMNS = columns_of("mlperf_results")
"""Table ``mlperf_results``: one row per submission and benchmark, means over the kept runs.

Rates of the whole result are harmonic means; rates per unit, times and counts are arithmetic means.
"""

PRINCIPAL_COLUMNS = columns_of("mlperf_principal")
"""Table ``mlperf_principal``: one row per submission (Fig. 3)."""

EFFICIENCY_COLUMNS = columns_of("mlperf_efficiencies")
"""Table ``mlperf_efficiencies``: a quantity of one result relative to another with at most as many units."""

WEAK_COLUMNS = columns_of("mlperf_weak")
"""Table ``mlperf_weak``: one row per weak-scaling result (T, S, M and M' of the rules, TTTa)."""
