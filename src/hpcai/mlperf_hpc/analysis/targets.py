"""Requirements on runs of the four benchmarks, read from ``mlperf_logging`` and from our table of rules."""

import math
import re
from importlib.resources import files
from types import MappingProxyType
from typing import NamedTuple

import yaml
from mlperf_logging.benchmark_meta import get_result_file_counts

from hpcai.mlperf_hpc.benchmarks import WORKLOAD_OF
from hpcai.mlperf_hpc.rounds.model import LoggedRun
from hpcai.records.run import reaches
from hpcai.rules.table import rules_of

RULE_FOLDER = "compliance_checker/hpc_3.0.0"
"""Only the newest rule set has all benchmarks; targets are the same in all sets."""
OWN_TARGET = "own_quality_target"
"""Setting of a run whose benchmark has its own, unofficial target: runs on small, generated data."""
OWN_DATA = "own_data_source"
"""Setting of an own run: source of its data."""
OWN_STALL = "own_stall"
"""Setting of an own run: the remark that its times include a pause; blank without one."""


class Quality(NamedTuple):
    """Requirements of a benchmark on its runs.

    ``key`` is the logged key of the quality, ``runs_by_rule`` the number of runs of a result, ``evaluation_samples``
    the size of the official evaluation data; None where our rules omit it.
    """

    key: str
    target: float
    higher_is_better: bool
    runs_by_rule: int
    evaluation_samples: int | None

    def reached_by(self, value: float, target: float | None = None) -> bool:
        """Return whether a quality meets the target, or another one; an accuracy above 1 is invalid and does not."""
        asked = self.target if target is None else target
        possible = value <= 1 if self.higher_is_better else value > 0
        return possible and reaches(value, asked, higher_is_better=self.higher_is_better)

    def best_of(self, values: list[float]) -> float:
        """Return the best of the finite qualities; NaN without one."""
        finite = [value for value in values if math.isfinite(value)]
        return (max if self.higher_is_better else min)(finite) if finite else math.nan


def _read_quality(benchmark: str, runs: int) -> Quality:
    """Read a target from the package's log checker: an expression such as ``v['value'] <= 0.124``."""
    rules = yaml.safe_load(files("mlperf_logging").joinpath(f"{RULE_FOLDER}/open_{benchmark}.yaml").read_text())
    for entry in rules:
        rule = entry["KEY"]
        found = re.match(r"v\['value'\] (<=|>=) ([0-9.]+) and ", rule.get("ATLEAST_ONE_CHECK", ""))
        if found:
            return Quality(rule["NAME"], float(found[2]), found[1] == ">=", runs, _read_evaluation_samples(benchmark))
    raise AssertionError(f"mlperf_logging states no target of {benchmark}")


def _read_evaluation_samples(benchmark: str) -> int | None:
    """Read the size of the evaluation data, which is the same in both divisions."""
    for rule in rules_of("mlperf_hpc").rules:
        asked = rule.settings.get("data.validation_samples")
        if asked and isinstance(asked.equals, int) and WORKLOAD_OF.get(benchmark) in rule.workloads:
            return asked.equals
    return None


QUALITY = MappingProxyType({name: _read_quality(name, runs) for name, runs in get_result_file_counts("hpc").items()})
"""By benchmark: cosmoflow, deepcam, oc20, openfold."""


def target_of(run: LoggedRun, benchmark: str) -> float:
    """Return the target of a run; NaN for an unknown benchmark.

    It is the official target, except for own benchmarks that define their own.
    """
    own = run.number_of(OWN_TARGET)
    if own is not None:
        return own
    return QUALITY[benchmark].target if benchmark in QUALITY else math.nan
