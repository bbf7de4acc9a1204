"""Report of HPL runs on this machine, and its table."""

import math

import pandas as pd
from pydantic import BaseModel, ConfigDict, Field

from hpcai.core.messages import Message
from hpcai.machine.hpl.library import OfBlas

LEAST_CPU_RATIO = 0.97
MOST_STEAL_RATIO = 0.03
SHORTEST_S = 0.5
OFF_CORE = Message(
    "report.off_core",
    "a rank was on a core for {percent:.1f} % of the wall time, less than {least:.0f} %",
)


class HplRun(BaseModel):
    """One start of ``hpcc`` with one test; an unknown number is None and has a reason."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    order: int
    block: int
    process_rows: int
    process_columns: int
    attempt: int = 1
    n: int = 1
    """How often the start solved the system; times and rates are the medians."""
    measured_time_s: float | None = None
    measured_rate_flop_per_s: float | None = None
    spread_ratio: float | None = None
    """Slowest minus fastest of them, over the median; None for one."""
    panel_time_s: float | None = None
    """This and the next three: HPL's own timers, of the process that has most of the part; None without them."""
    update_time_s: float | None = None
    """With the row exchanges."""
    exchange_time_s: float | None = None
    substitution_time_s: float | None = None
    residual: float | None = None
    threshold: float | None = None
    verdict: str = "not measured"
    cpu_ratio: float | None = None
    """Smallest ratio of core time to wall time of any rank, while HPL's section of the output was written."""
    steal_ratio: float | None = None
    message_rate_bytes_per_s: float | None = None
    """Between two processes, for 2 MB messages, measured by the same start of ``hpcc``, or before those of another HPL;
    None for one process."""
    start_s: float | None = None
    """Wall time of the whole start, which also runs the other tests of HPC Challenge."""
    accepted: bool = False
    reason: str = ""
    raw: str = ""
    command: str = ""


class HplReport(OfBlas):
    """All starts, including rejected ones."""

    runs: tuple[HplRun, ...] = ()
    versions: dict[str, str] = Field(default_factory=dict)

    def frame(self, source: str) -> pd.DataFrame:
        """Return one row per start.

        Parameters
        ----------
        source
            Name of the report's file, for the column ``source``.
        """
        table = pd.DataFrame([run.model_dump() for run in self.runs], columns=list(HplRun.model_fields))
        ends = ("_s", "_ratio", "residual", "threshold")  # rates also end with _s
        numbers = [name for name in HplRun.model_fields if name.endswith(ends)]
        table = table.astype(dict.fromkeys(numbers, float))
        return table.assign(method="measured", library=self.library, source=source)


def judge_run(run: HplRun) -> HplRun:
    """Return a run with its verdict: whether it is accepted for a comparison, and if not, why.

    A run that already has a reason is rejected.
    """
    if run.reason:
        return run
    reasons = faults_of(run)
    if run.cpu_ratio is None:
        reasons.append("whether the run had the cores to itself is not known")
    return run.model_copy(update={"accepted": not reasons, "reason": "; ".join(reasons)})


def faults_of(run: HplRun) -> list[str]:
    """Return what is wrong with a run, one sentence each; that its use of the cores is unknown is no fault."""
    reasons = []
    if run.verdict != "passed":
        reasons.append(f"the residual check reports {run.verdict}")
    if run.measured_time_s is None or run.measured_time_s < SHORTEST_S:
        reasons.append(f"shorter than {SHORTEST_S:g} s")
    if run.cpu_ratio is not None and not _is_at_least(run.cpu_ratio, LEAST_CPU_RATIO):
        reasons.append(OFF_CORE(percent=100 * run.cpu_ratio, least=100 * LEAST_CPU_RATIO))
    if run.steal_ratio is not None and run.steal_ratio > MOST_STEAL_RATIO:
        reasons.append(f"the hypervisor took {100 * run.steal_ratio:.1f} % of the cores' time")
    return reasons


def _is_at_least(value: float, limit: float) -> bool:
    return math.isfinite(value) and value >= limit
