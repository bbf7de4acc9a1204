"""The seven steps of a collective, in the order and under the names of HPC AI500 V2.0, Table 12."""

import math
from dataclasses import dataclass

import pandas as pd

from hpcai.core.messages import Message
from hpcai.metrics.profiles import communication as parts

NOT_IN_TIMELINE = Message(
    "exchange_steps.not_in_timeline", "Horovod's timeline has no {phase}: it names it {condition}"
)
TRANSFER = "NCCL_ALLREDUCE"
"""How Table 12 calls the transfer, whatever library moved it and whatever the collective."""
ALSO_CALLED = {"BROADCAST": "BCAST"}
"""How Horovod ends the names of some transfers (horovod/common/common.h): MPI_BCAST, NCCL_BCAST, GLOO_BCAST."""


@dataclass(frozen=True)
class Step:
    """One step: its name in Table 12, Horovod's phase that it is, and when Horovod has that phase."""

    name: str
    phase: str
    condition: str = "for every collective"


STEPS = (
    Step("NEGOTIATE_ALLREDUCE", f"{parts.NEGOTIATION}{{collective}}"),
    Step("WAIT_FOR_DATA", "WAIT_FOR_DATA", "for tensors on accelerators only"),
    Step("WAIT_FOR_OTHER_DATA", "WAIT_FOR_OTHER_TENSOR_DATA", "for tensors on accelerators only"),
    Step("QUEUING", "QUEUE", "for NCCL only"),
    Step("MEMCPY_IN", "MEMCPY_IN_FUSION_BUFFER", "where it fuses several tensors"),
    Step(TRANSFER, "LIBRARY_{collective}"),
    Step("MEMCPY_OUT", "MEMCPY_OUT_FUSION_BUFFER", "where it fuses several tensors"),
)


def exchange_steps(spans: pd.DataFrame) -> pd.DataFrame:
    """Return the seven steps of each kind of collective that occurs.

    Columns: ``collective`` (Horovod's name), ``place`` (1 to 7), ``step`` (as Table 12 calls it), ``phase`` (as
    Horovod calls it), ``spans``, ``mean_s`` (without operations that set something up for the first time, INIT_*),
    ``share_ratio`` of the sum of the seven means, ``reason``. A step that the timeline does not have is NaN, never 0,
    and is left out of the sum. Spans belong to the collective of their tensor.

    Parameters
    ----------
    spans
        Spans of a timeline.
    """
    keys = ["file", "tensor"] if "file" in spans else ["tensor"]
    operations = spans[parts.is_operation(spans["activity"])]
    tables = []
    for collective, own in operations.groupby(operations["activity"].astype(str), sort=True):
        tensors = pd.MultiIndex.from_frame(own[keys].astype(object))
        mine = pd.MultiIndex.from_frame(spans[keys].astype(object)).isin(tensors)
        tables.append(_steps_of(str(collective), parts.phase_table(spans[mine]).set_index("phase")))
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()


def _steps_of(collective: str, phases: pd.DataFrame) -> pd.DataFrame:
    rows = []
    for place, step in enumerate(STEPS, 1):
        phase = step.phase.format(collective=collective)
        if step.name == TRANSFER:
            phase = _transfer_of(collective, phases) or phase
        row = phases.loc[phase] if phase in phases.index else None
        rows.append(
            {
                "collective": collective,
                "place": place,
                "step": step.name,
                "phase": phase,
                "spans": 0 if row is None else int(row["spans"]),
                "mean_s": math.nan if row is None else float(row["mean_s"]),
                "reason": NOT_IN_TIMELINE(phase=phase, condition=step.condition) if row is None else "",
            }
        )
    table = pd.DataFrame(rows)
    return table.assign(share_ratio=table["mean_s"] / table["mean_s"].sum())


def _transfer_of(collective: str, phases: pd.DataFrame) -> str:
    """Return the library's phase that moved most tensors; blank: none did.

    A job may use several libraries: with NCCL for the gradients, MPI still moves the few tensors of processors.
    """
    endings = tuple(f"_{name}" for name in (collective, ALSO_CALLED.get(collective, collective)))
    own = phases[[name.startswith(parts.LIBRARIES) and name.endswith(endings) for name in phases.index]]
    return str(own["spans"].astype(int).idxmax()) if len(own) else ""
