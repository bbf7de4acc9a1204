import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from unit.parsers.artefacts import sample

from hpcai.metrics.profiles import communication, spans
from hpcai.metrics.profiles.communication import (
    Conditions,
    Totals,
    algorithm_bandwidth,
    bus_bandwidth,
    cycle_time,
    main_messages,
    merge_batches,
    negotiation_share,
    overlap_ratio,
    phase_table,
    size_classes,
)
from hpcai.metrics.profiles.communication_steps import communication_summary, find_steps, spans_of_steps, step_lanes
from hpcai.parsers.horovod.timeline import read_timeline_tables

KERAS = "horovod/keras_nccl_8ranks.json"
BATCHES = {
    KERAS: (1232, 237, 56_610, 739_127_312),
    "horovod/tf_mpi_4ranks_2019_unclosed.json": (660, 553, 46_590_291, 13_815_490_040),
    "horovod/tf_gloo_2ranks_markcycles.json": (675, 180, 251_544, 17_962_764),
    "horovod/tf_mpi_2ranks_killed.json": (225, 69, 38_646, None),
}
MEANS_US = {
    KERAS: 7_968.645,
    "horovod/tf_mpi_4ranks_2019_unclosed.json": 71_946.706,
    "horovod/tf_gloo_2ranks_markcycles.json": 2_143.726,
    "horovod/tf_mpi_2ranks_killed.json": 981.382,
}


def table(rows):
    """Spans from tensor, activity, start (us), duration (us), bytes."""
    columns = ["tensor", "activity", "start_s", "duration_s", "bytes"]
    made = pd.DataFrame(rows, columns=columns).assign(has_init=False)
    made[["start_s", "duration_s"]] /= 1e6
    return made


def steps(count, step_us=1000):
    """Two tensors of 400 and 600 bytes, fused: negotiated 100 us, copied 20, transferred 50."""
    rows = []
    for number in range(count):
        at = number * step_us
        for tensor, size, shift in (("a", 400.0, 0), ("b", 600.0, 3)):
            rows += [
                (tensor, "NEGOTIATE_ALLREDUCE", at + shift, 100, np.nan),
                (tensor, "ALLREDUCE", at + 200, 100, size),
                (tensor, "MEMCPY_IN_FUSION_BUFFER", at + 200 + shift, 20, size),
                (tensor, "NCCL_ALLREDUCE", at + 230 + shift, 50, size),
            ]
    return table(rows)


@pytest.mark.parametrize("name", BATCHES)
def test_samples_form_the_batches_counted_by_hand(name):
    members, batches, time_us, size = BATCHES[name]
    found = read_timeline_tables(sample(name)).spans.table
    messages = merge_batches(found)
    if name == KERAS:
        messages = messages[messages["activity"] == "NCCL_ALLREDUCE"]
    assert (int(messages["tensors"].sum()), len(messages)) == (members, batches)
    assert messages["duration_s"].sum() * 1e6 == pytest.approx(time_us)
    if size:
        assert messages["bytes"].sum() == size
    mean = found.loc[found["activity"] == "ALLREDUCE", "duration_s"].mean()
    assert mean * 1e6 == pytest.approx(MEANS_US[name], abs=5e-4)


def test_bandwidth_of_a_sample_is_that_of_merged_transfers():
    read = read_timeline_tables(sample(KERAS))
    messages = merge_batches(read.spans.table)
    nccl = messages[messages["activity"] == "NCCL_ALLREDUCE"]
    assert algorithm_bandwidth(nccl) / 1e9 == pytest.approx(13.0565, abs=5e-5)
    assert nccl["bytes"].sum() == 154 * 4_799_528
    naive = read.spans.table.loc[read.spans.table["activity"] == "NCCL_ALLREDUCE", ["bytes", "duration_s"]].sum()
    assert naive["bytes"] / naive["duration_s"] / 1e9 == pytest.approx(2.436, abs=5e-4)
    assert len(find_steps(read.spans.table)) == 154
    phases = phase_table(read.spans.table).set_index("phase")
    assert phases.loc["ALLREDUCE", "excluded_spans"] == 2
    assert phases.loc["ALLREDUCE", "total_s"] == pytest.approx(9.992681)
    assert phases.loc["ALLREDUCE", "mean_s"] < 0.0011
    row = communication_summary(read.spans.table, read.ready, read.cycles, Conditions(8, doubtful=read.doubtful))
    assert row["steps"] == 153
    assert row["bytes_per_step"] == pytest.approx(4_799_528, rel=1e-5)
    assert row["bus_bandwidth_bytes_per_s"] == pytest.approx(1.75 * row["algorithm_bandwidth_bytes_per_s"])
    assert math.isnan(row["overlap_ratio"])


def test_phases_of_fused_tensors():
    phases = phase_table(steps(4)).set_index("phase")
    assert list(phases.columns) == list(communication.PHASES[1:])
    assert phases.loc["NEGOTIATE_ALLREDUCE", "spans"] == 8
    assert phases.loc["NCCL_ALLREDUCE", "mean_s"] == pytest.approx(50e-6)
    assert phases.loc["NCCL_ALLREDUCE", "share_ratio"] == pytest.approx(0.25)
    assert negotiation_share(phases.reset_index()) == pytest.approx(0.5)


def test_operations_that_set_something_up_count_in_totals_only():
    found = steps(4)
    found.loc[found["start_s"] < 0.0009, "has_init"] = found["activity"] != "NEGOTIATE_ALLREDUCE"
    found["has_init"] = found["has_init"].fillna(False)
    found.loc[(found["activity"] == "ALLREDUCE") & found["has_init"], "duration_s"] = 5.0
    phases = phase_table(found).set_index("phase")
    assert phases.loc["ALLREDUCE", "excluded_spans"] == 2
    assert phases.loc["ALLREDUCE", "mean_s"] == pytest.approx(100e-6)
    assert phases.loc["ALLREDUCE", "total_s"] == pytest.approx(10 + 6 * 100e-6)


def test_batches_are_merged_by_overlap():
    messages = merge_batches(steps(4))
    assert list(messages.columns) == list(communication.MESSAGES)
    assert len(messages) == 4
    assert set(messages["bytes"]) == {1000.0}
    assert messages["duration_s"].to_numpy() == pytest.approx(53e-6)
    assert algorithm_bandwidth(messages) == pytest.approx(1000 / 53e-6)


def test_touching_transfers_are_two_messages():
    found = table([("a", "MPI_ALLREDUCE", 1_410_488_741_507 + 10 * n, 10, 4.0) for n in range(50)])
    assert len(merge_batches(found)) == 50


def test_a_batch_with_a_missing_tensor_has_no_size():
    found = steps(4)
    found.loc[3, "bytes"] = np.nan
    messages = merge_batches(found)
    assert messages["bytes"].isna().sum() == 1
    assert algorithm_bandwidth(messages) == pytest.approx(1000 / 53e-6)
    doubtful = pd.DataFrame({"start_s": [0.00101], "end_s": [0.00124]})
    assert list(merge_batches(steps(4), doubtful)["bytes"].isna()) == [False, True, False, False]
    row = communication_summary(found, no_ready(), no_cycles(), Conditions(2, windows=windows(4)))
    assert math.isnan(row["bytes_per_step"])


def no_ready():
    return pd.DataFrame({"tensor": [], "rank": [], "time_s": []})


def no_cycles():
    return pd.DataFrame({"time_s": []}, dtype=float)


def windows(count):
    return pd.DataFrame({"start_s": np.arange(count) * 1e-3, "duration_s": 1e-3})


@settings(max_examples=20, deadline=None)
@given(st.permutations(range(32)), st.integers(1, 31))
def test_pieces_give_what_the_whole_gives(order, cut):
    found = steps(4)
    totals = Totals()
    for part in (order[:cut], order[cut:]):
        totals.add(found.iloc[list(part)])
    pd.testing.assert_frame_equal(totals.phases(), phase_table(found))
    pd.testing.assert_frame_equal(totals.messages(), merge_batches(found))


def test_nothing_measured_gives_no_number():
    nothing = table([])
    assert merge_batches(nothing).empty
    assert phase_table(nothing).empty
    assert math.isnan(negotiation_share(phase_table(nothing)))
    assert math.isnan(algorithm_bandwidth(merge_batches(nothing)))
    assert find_steps(nothing).empty
    assert step_lanes(nothing, None, find_steps(nothing)).empty
    assert math.isnan(cycle_time(no_cycles()))
    row = communication_summary(nothing, no_ready(), no_cycles(), Conditions(1))
    numbers = [value for value in row.values() if isinstance(value, float)]
    assert row["coverage_ratio"] == 1
    assert sum(map(math.isnan, numbers)) == len(numbers) - 1
    assert row["slowest_rank"] is None


def test_bus_bandwidth_is_that_of_nccl_tests():
    assert bus_bandwidth(10.0, 8) == pytest.approx(17.5)
    assert bus_bandwidth(10.0, 2) == pytest.approx(10)
    assert math.isnan(bus_bandwidth(10.0, 1))


def test_a_negotiation_belongs_to_the_steps_if_its_operation_does():
    # Another rank asked 150 us before the first step of this one; the second step's operation has no step.
    found = pd.concat([steps(3), table([("a", "BROADCAST", -900, 10, np.nan)])], ignore_index=True)
    early = windows(2).assign(start_s=np.arange(2) * 1e-3 + 50e-6)
    kept = spans_of_steps(found, early)
    assert kept["activity"].value_counts().to_dict() == dict.fromkeys(
        ("NEGOTIATE_ALLREDUCE", "ALLREDUCE", "MEMCPY_IN_FUSION_BUFFER", "NCCL_ALLREDUCE"), 4
    )
    pd.testing.assert_frame_equal(spans_of_steps(kept, early), kept)
    late = windows(2).assign(start_s=np.arange(2) * 1e-3 + 150e-6)  # the third one's negotiation begins in the second
    assert (spans_of_steps(found, late)["start_s"] < 2e-3).all()
    row = communication_summary(found, no_ready(), no_cycles(), Conditions(2, windows=early))
    assert row["negotiation_s"] == pytest.approx(53e-6 + 103e-6)  # clipped at the first step
    assert row["negotiation_share_ratio"] == pytest.approx(0.5)  # of whole spans


def test_a_negotiation_without_an_operation_counts_by_its_own_begin():
    found = steps(2)
    found = found[(found["activity"] != "ALLREDUCE") | (found["start_s"] < 1e-3)]
    assert len(spans_of_steps(found, windows(2))) == len(found)


def test_overlap_is_the_share_of_transfer_behind_computation():
    messages = merge_batches(steps(2))
    computation = pd.DataFrame({"start_s": [0.0, 0.0001], "duration_s": [0.00025, 0.0001565]})
    assert overlap_ratio(messages, computation) == pytest.approx(26.5e-6 / 106e-6)
    assert overlap_ratio(messages, messages) == pytest.approx(1)
    assert math.isnan(overlap_ratio(messages, None))


def test_summary_of_known_steps():
    row = communication_summary(steps(4), no_ready(), no_cycles(), Conditions(4, windows=windows(4), reasons=["cut"]))
    assert (row["steps"], row["operations"], row["batches"]) == (4, 8, 4)
    assert row["bytes_per_step"] == 1000
    assert row["batch_bytes_mean"] == 1000
    assert row["negotiation_s"] == pytest.approx(4 * 103e-6)
    assert row["transfer_s"] == pytest.approx(4 * 53e-6)
    assert row["exchange_per_step_s"] == pytest.approx(203e-6)
    assert row["communication_share_ratio"] == pytest.approx(0.203)
    assert row["step_time_s"] == pytest.approx(1e-3)
    assert row["negotiation_share_ratio"] == pytest.approx(0.5)
    assert row["bus_bandwidth_bytes_per_s"] == pytest.approx(1000 / 53e-6 * 1.5)
    assert row["reasons"] == "cut"


def step_with_a_loss(count=3, step_us=20_000):
    """Gradients of 261 kB in 1.2 ms, and a loss of 4 bytes that travels alone and waits for 6.25 ms."""
    rows = []
    for at in range(0, count * step_us, step_us):
        for tensor, start, duration, size in (("gradients", 1000, 1203, 261_000.0), ("loss", 3000, 6254, 4.0)):
            rows += [
                (tensor, "NEGOTIATE_ALLREDUCE", at + start - 500, 400, np.nan),
                (tensor, "ALLREDUCE", at + start, duration, size),
                (tensor, "GLOO_ALLREDUCE", at + start, duration, size),
            ]
    return table(rows)


def test_a_loss_of_4_bytes_does_not_dilute_the_bandwidth_of_the_gradients():
    found = step_with_a_loss()
    known = pd.DataFrame({"start_s": np.arange(3) * 0.02, "duration_s": 0.02})
    row = communication_summary(found, no_ready(), no_cycles(), Conditions(2, windows=known))
    assert algorithm_bandwidth(merge_batches(found)) == pytest.approx(0.035e9, rel=1e-2)  # all over all
    assert row["algorithm_bandwidth_bytes_per_s"] == pytest.approx(0.217e9, rel=1e-3)
    assert row["bus_bandwidth_bytes_per_s"] == row["algorithm_bandwidth_bytes_per_s"]
    assert row["batch_bytes_mean"] == 261_000
    assert (row["batches"], row["other_batches"]) == (6, 3)
    assert row["other_transfer_s"] == pytest.approx(3 * 6.254e-3)
    assert row["transfer_s"] == pytest.approx(3 * (6.254e-3 + 1.203e-3))
    assert row["bytes_per_step"] == 261_004


def sized(*sizes):
    return pd.DataFrame({"bytes": np.array(sizes, float), "duration_s": 1e-3})


@pytest.mark.parametrize(
    ("sizes", "classes", "main"),
    [
        ([], [], []),
        ([4.0], [0], [True]),
        ([np.nan], [-1], [False]),
        ([0.0, 0.0], [0, 0], [True, True]),
        ([100.0, 4.0, 1000.0, np.nan], [1, 0, 1, -1], [True, False, True, False]),
        ([1e6, 2e6, 1.9e7, 4.0, 512.0], [2, 2, 2, 0, 1], [True, True, True, False, False]),
        # Many of one size may carry more than a single large one.
        ([*[1000.0] * 50, 20_000.0], [*[0] * 50, 1], [*[True] * 50, False]),
    ],
)
def test_messages_are_told_apart_by_size(sizes, classes, main):
    assert size_classes(sized(*sizes)).tolist() == classes
    assert main_messages(sized(*sizes)).tolist() == main


@given(st.lists(st.integers(1, 10**9), min_size=1, max_size=30))
def test_no_message_of_a_class_is_near_another_class(sizes):
    classes = size_classes(sized(*sizes))
    order = np.argsort(sizes, kind="stable")
    ordered, members = np.array(sizes, float)[order], classes[order]
    apart = ordered[1:] > communication.CLASS_GAP * ordered[:-1]
    np.testing.assert_array_equal(np.diff(members), apart.astype(int))


def test_steps_are_found_by_repeated_names():
    scalars = table([("loss", "NEGOTIATE_ALLREDUCE", 500, 1, np.nan), ("loss", "ALLREDUCE", 502, 1, 4.0)])
    found = find_steps(pd.concat([steps(5), scalars]))
    assert found["start_s"].to_numpy() == pytest.approx(np.arange(5) * 1e-3)
    assert found["duration_s"].to_numpy()[:4] == pytest.approx(1e-3)


def test_lanes_of_the_typical_step():
    known = windows(3)
    known.loc[1, "duration_s"] = 5e-3
    computation = pd.DataFrame({"start_s": [0.0019, 0.0021], "duration_s": [0.00015, 0.0001]})
    lanes = step_lanes(steps(3), computation, known).set_index("lane")
    assert set(lanes.index) == {"computation", "negotiation", "fusion buffer", "transfer"}
    assert lanes.loc["negotiation", "duration_s"] == pytest.approx(103e-6)
    assert lanes.loc["transfer", "start_s"] == pytest.approx(230e-6)
    assert lanes.loc["computation", "duration_s"].sum() == pytest.approx(150e-6)
    assert lanes["start_s"].min() == 0


def test_halo_exchanges_are_a_phase_and_a_lane_of_their_own():
    """A halo exchange of 40 us, 10 of them negotiated, beside the gradients of each step."""
    halos = table(
        [
            row
            for at in range(0, 3000, 1000)
            for row in (
                ("halo.conv", "NEGOTIATE_ALLTOALL", at + 600, 10, np.nan),
                ("halo.conv", "ALLTOALL", at + 610, 30, np.nan),
                ("halo.conv", "MPI_ALLTOALL", at + 615, 20, np.nan),
            )
        ]
    )
    spans_of_both = pd.concat([steps(3), halos], ignore_index=True)
    conditions = Conditions(ranks=2, windows=windows(3))
    ready = pd.DataFrame({"tensor": [], "time_s": [], "rank": []})
    cycles = pd.DataFrame({"time_s": []})
    alone, both = (communication_summary(one, ready, cycles, conditions) for one in (steps(3), spans_of_both))
    assert np.isnan(alone["halo_per_step_s"])
    assert both["halo_per_step_s"] == pytest.approx(40e-6)
    assert both["bytes_per_step"] == alone["bytes_per_step"]
    assert both["transfer_s"] == alone["transfer_s"]
    lanes = step_lanes(spans_of_both, None, windows(3)).set_index("lane")
    assert lanes.loc["halo exchange", "duration_s"] == pytest.approx(20e-6)
    assert {"ALLTOALL", "NEGOTIATE_ALLTOALL", "MPI_ALLTOALL"} <= set(phase_table(spans_of_both)["phase"])


INTERVALS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), min_size=1, max_size=12)


@given(INTERVALS, INTERVALS)
def test_covered_length_counts_every_moment_once(some, others):
    def moments(intervals):
        return {moment for start, length in intervals for moment in range(start, start + length)}

    def columns(intervals):
        start, length = np.array(intervals, float).T
        return start, start + length

    covered = spans.covered_length(*columns(some), *columns(others))
    assert covered == pytest.approx(len(moments(some) & moments(others)))
    starts, ends = spans.merge_intervals(*columns(some))
    assert (ends - starts).sum() == pytest.approx(len(moments(some)))
