"""The seven steps of a collective, on real timelines: names and order of Table 12, shares of their sum."""

import pandas as pd
import pytest
from unit.parsers.artefacts import sample

from hpcai.metrics.profiles.communication import phase_table
from hpcai.metrics.profiles.exchange_steps import NOT_IN_TIMELINE, STEPS, TRANSFER, exchange_steps
from hpcai.parsers.horovod.timeline import read_timeline

NAMES = (
    "NEGOTIATE_ALLREDUCE", "WAIT_FOR_DATA", "WAIT_FOR_OTHER_DATA", "QUEUING", "MEMCPY_IN", "NCCL_ALLREDUCE",
    "MEMCPY_OUT",
)  # fmt: skip
"""As Table 12 of HPC AI500 V2.0 prints them."""


def steps(name: str, collective: str = "ALLREDUCE") -> pd.DataFrame:
    table = exchange_steps(read_timeline(sample(name)).table)
    return table[table["collective"] == collective].set_index("step")


def test_nccl_has_all_seven_steps_in_the_order_of_the_table() -> None:
    own = steps("horovod/keras_nccl_8ranks.json")
    assert tuple(own.index) == NAMES
    assert own["place"].to_list() == [1, 2, 3, 4, 5, 6, 7]
    assert own["mean_s"].notna().all()
    assert own["share_ratio"].sum() == pytest.approx(1.0)
    assert (own["reason"] == "").all()
    # 1 232 spans each; two operations that set NCCL up are no part of the means (data sheet of the sample).
    assert own.loc["QUEUING", "spans"] == 1232
    assert own.loc["QUEUING", "phase"] == "QUEUE"
    assert own.loc["WAIT_FOR_DATA", "mean_s"] == pytest.approx(454_192e-6 / 1232, rel=0.02)
    transfer = own.loc["NCCL_ALLREDUCE"]
    assert (transfer["phase"], transfer["spans"]) == ("NCCL_ALLREDUCE", 1232)
    assert transfer["mean_s"] == pytest.approx(247e-6, rel=0.02)  # MPI moves 22 small tensors in 13 us each
    negotiation = own["mean_s"].iloc[0] / own["mean_s"].sum()
    assert own.loc["NEGOTIATE_ALLREDUCE", "share_ratio"] == pytest.approx(negotiation)


def test_what_gloo_does_not_name_is_no_zero() -> None:
    own = steps("horovod/tf_gloo_2ranks_markcycles.json")
    assert own.loc["NCCL_ALLREDUCE", "phase"] == "GLOO_ALLREDUCE"
    lacking = ["WAIT_FOR_DATA", "WAIT_FOR_OTHER_DATA", "QUEUING"]
    assert own.loc[lacking, ["mean_s", "share_ratio"]].isna().all(axis=None)
    assert own["share_ratio"].sum() == pytest.approx(1.0)
    assert NOT_IN_TIMELINE(phase="QUEUE", condition="for NCCL only") == own.loc["QUEUING", "reason"]


def test_each_collective_has_its_own_steps() -> None:
    spans = read_timeline(sample("horovod/tf_gloo_2ranks_markcycles.json")).table
    broadcast = exchange_steps(spans).set_index(["collective", "place"]).loc["BROADCAST"]
    assert len(broadcast) == len(STEPS)
    assert broadcast.loc[1, "phase"] == "NEGOTIATE_BROADCAST"
    assert broadcast.loc[1, "spans"] == phase_table(spans).set_index("phase").loc["NEGOTIATE_BROADCAST", "spans"] == 29
    transfer = broadcast[broadcast["step"] == TRANSFER].iloc[0]
    assert transfer["phase"] == "GLOO_BCAST"
    assert transfer["mean_s"] > 0
    assert transfer["reason"] == ""


def test_without_spans_there_are_no_steps() -> None:
    spans = read_timeline(sample("horovod/tf_gloo_2ranks_markcycles.json")).table
    assert exchange_steps(spans.head(0)).empty
