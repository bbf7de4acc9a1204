"""Benchmarks of MLPerf HPC, as their folders declare them."""

import pytest

from hpcai.config.workloads import BENCHMARKS as SETTINGS
from hpcai.core.errors import ConfigError
from hpcai.mlperf_hpc.benchmarks import BENCHMARKS, OWN, WORKLOAD_OF, name_of


def test_those_of_the_suite_are_there() -> None:
    assert set(OWN) == {name for name, model in SETTINGS.items() if model.suite == "mlperf_hpc"}
    assert {name_of(workload): workload for workload in OWN} == WORKLOAD_OF
    assert [facts.name for facts in BENCHMARKS.values()] == list(BENCHMARKS) == ["cosmoflow", "deepcam", "oc20"]


def test_another_one_is_refused() -> None:
    with pytest.raises(ConfigError, match="workload: found 'image_classification'"):
        name_of("image_classification")
