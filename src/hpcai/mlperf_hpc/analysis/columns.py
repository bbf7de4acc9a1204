"""Columns of the tables of rounds, submissions and their analysis; units end the names."""

from hpcai.catalogue.tables import columns_of

RUN_COLUMNS = columns_of("mlperf_runs")
"""Table ``mlperf_runs``: one row per log.

``logged_nodes`` is what the log tells, whatever counts, ``staging_in_run_s`` the part of ``staging_s`` on the clock,
``evaluation_alone_s`` that of ``evaluation_s`` beside no training, ``scaling_factor`` that of the submission (NaN
without a ``scaling.json``), and ``reason`` says why a quantity is not a number or was not obtained in the usual way.
"""

RESULT_COLUMNS = columns_of("mlperf_results")
"""Table ``mlperf_results``: one row per submission and benchmark, means over the kept runs.

Rates of the whole result are harmonic means, those per unit arithmetic ones; so are times and counts.
"""

PRINCIPAL_COLUMNS = columns_of("mlperf_principal")
"""Table ``mlperf_principal``: one row per submission (Fig. 3)."""

EFFICIENCY_COLUMNS = columns_of("mlperf_efficiencies")
"""Table ``mlperf_efficiencies``: a quantity of one result against that of another with fewer or as many units."""

WEAK_COLUMNS = columns_of("mlperf_weak")
"""Table ``mlperf_weak``: one row per weak-scaling result (T, S, M and M' of the rules, TTTa)."""
