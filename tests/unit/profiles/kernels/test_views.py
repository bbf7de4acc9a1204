"""Kernels of a profiled run: TensorFlow's operations within the steps, and the concurrent exchange."""

import pandas as pd
import pytest
from unit.parsers.test_device_trace import write_trace
from unit.parsers.tool_output import hand_made
from unit.profiles.profile_folders import STEPS_S, make_profile
from unit.profiles.timeline_text import timeline_text
from unit.record_factory import make_machine

from hpcai.config.machine import Machine
from hpcai.config.study import WARM_STEPS
from hpcai.core.errors import ParseError
from hpcai.parsers.reading import Reading
from hpcai.profiles.kernels import views as module
from hpcai.profiles.kernels.views import WHOLE_RUN, kernel_views
from hpcai.profiles.reading import read_profiles

START_S = 1000 + STEPS_S[0]
PROFILED = len(STEPS_S) - WARM_STEPS


def operations(*rows):
    """Return operations (type, start in the first step, duration) of all four steps on the wall clock."""
    made = [
        {"name": name, "operation": f"{name}/{step}", "kind": "kernel", "device": "/host:CPU", "stream": 1,
         "start_s": START_S + step * 0.5 + begin_s, "duration_s": duration_s, "self_s": duration_s}
        for step in range(len(STEPS_S)) for name, begin_s, duration_s in rows
    ]  # fmt: skip
    return pd.DataFrame(made)


@pytest.fixture
def profiled(tmp_path, monkeypatch):
    """Return views of operations, for one or two ranks."""

    def views(table, ranks=2):
        monkeypatch.setattr(
            module, "read_tensorflow_profile", lambda path: Reading(table, "TensorFlow profiler", path, 1, 1)
        )
        raw = {"steps.xplane.pb": b"\x0a", **({"timeline.json": timeline_text(START_S - 0.25)} if ranks > 1 else {})}
        profile = make_profile(tmp_path / str(ranks), "kernels", raw, tool="TensorFlow profiler", ranks_per_node=ranks)
        return kernel_views(profile)

    return views


def test_shares_are_those_of_all_kernel_time(profiled):
    table = operations(("Conv3D", 0.0, 0.030), ("MatMul", 0.03, 0.010), ("Relu", 0.04, 0.010))
    kernels = profiled(table)["kernels"].set_index("category")
    assert kernels["share_ratio"].sum() == pytest.approx(1.0)
    # In each step one batch travels for 10 ms; both views exclude the warm-up steps.
    assert kernels.loc["convolution", "share_ratio"] == pytest.approx(30 / 60)
    assert kernels.loc["allreduce", "total_s"] == pytest.approx(0.010 * PROFILED)
    assert "allreduce" not in set(profiled(table, ranks=1)["kernels"]["category"])


def test_what_began_outside_the_steps_does_not_count(profiled):
    table = operations(("MatMul", 0.1, 0.010))
    late = table.iloc[[0]].assign(start_s=START_S + 2.0)  # the last step has just ended
    early = table.iloc[[0]].assign(start_s=START_S - 1e-3)
    names = profiled(pd.concat([early, table, late]), ranks=1)["kernel_names"]
    assert names["calls"].to_list() == [PROFILED]
    with pytest.raises(ParseError, match="do not overlap in time"):
        profiled(late)


def test_overlap_is_the_transfer_time_that_computing_hides(profiled):
    # Transfers run from 141 to 151 ms of each step; computation covers the first half of that.
    views = profiled(operations(("Conv3D", 0.100, 0.046), ("TFRecordDatasetV2", 0.150, 0.2)))
    assert views["overlap"]["overlap_ratio"].to_list() == pytest.approx([0.5])
    lanes = views["lanes"]
    assert set(lanes["lane"]) == {"computation", "negotiation", "fusion buffer", "transfer"}
    computing = lanes[lanes["lane"] == "computation"]
    assert computing["start_s"].to_list() == pytest.approx([0.1])
    assert computing["activity"].to_list() == ["Conv3D"]


def test_one_rank_has_no_overlap(profiled):
    views = profiled(operations(("Conv3D", 0.1, 0.046)), ranks=1)
    assert views["overlap"].empty
    assert views["lanes"].empty


def test_a_cut_trace_is_said_in_the_views_and_in_the_capture(tmp_path):
    header = (
        '"Start","Duration","Grid X","Grid Y","Grid Z","Block X","Block Y","Block Z","Registers Per Thread",'
        '"Static SMem","Dynamic SMem","Size","Throughput","Device","Context","Stream","Name"\n'
        "ms,us,,,,,,,,KB,B,KB,GB/s,,,,\n"
    )
    row = '{}.000000,100.000000,1,1,1,1,1,1,32,0.000000,0,,,"Tesla V100 (0)","1","7","sgemm_128x64_nn [{}]"\n'
    text = "==7== Profiling result:\n" + header + "".join(row.format(n, n) for n in range(1, 5))
    profile = make_profile(tmp_path / "p", "kernels", {"nvprof_trace.csv": text[:-40]}, tool="nvprof")
    views = read_profiles("kernels", [profile.folder / "capture.json"])
    assert views["kernels"]["calls"].to_list() == [3]
    assert (views["kernels"]["coverage_ratio"] < 1).all()
    capture = views["captures"].iloc[0]
    assert capture["coverage_ratio"] < 1
    assert capture["reason"]


def test_overall_utilisation_is_the_time_in_which_anything_computes(profiled):
    # Two threads overlap for 10 ms; the input and what waits for the exchange compute nothing.
    table = operations(("Conv3D", 0.0, 0.030), ("MatMul", 0.02, 0.030), ("IteratorGetNext", 0.2, 0.1))
    table = pd.concat([table, operations(("HorovodAllreduce", 0.3, 0.1))])
    for ranks in (1, 2):
        busy = profiled(table, ranks=ranks)["kernels"]["device_busy_ratio"]
        assert busy.to_list() == pytest.approx([0.050 / 0.5] * len(busy))


def test_traces_of_rocprofv3_fill_the_same_tables(tmp_path):
    raw = {
        f"rocprof_{name}": hand_made(f"rocprofv3_{name}").read_bytes()
        for name in ("kernel_trace.csv", "memory_copy_trace.csv")
    }
    views = kernel_views(make_profile(tmp_path / "p", "kernels", raw, tool="rocprofv3"))
    kernels = views["kernels"].set_index("category")
    assert set(kernels["tool"]) == {"rocprofv3"}
    assert kernels["share_ratio"].sum() == pytest.approx(1.0)
    assert kernels.loc["GEMM", "total_s"] == pytest.approx(330e-6)
    assert kernels.loc["memcpy", "total_s"] == pytest.approx(80e-6)
    # From 0 to 1000 us; nothing computes from 400 to 500 and, but for the collective, from 800 to 870.
    assert kernels["device_busy_ratio"].iloc[0] == pytest.approx(0.83)
    assert all(WHOLE_RUN() in reasons for reasons in kernels["reasons"])
    with pytest.raises(ParseError):
        kernel_views(make_profile(tmp_path / "q", "kernels", {"rocprof.log": b""}, tool="rocprofv3"))


def test_on_accelerators_tensorflow_tells_the_kernels_of_the_device(tmp_path):
    """The host's operations only start them."""
    trace = write_trace(tmp_path / "trace").read_bytes()
    machine = make_machine().model_dump(mode="json") | {"device": {"kind": "gpu"}, "accelerators_per_node": 4}
    profile = make_profile(
        tmp_path / "p", "kernels", {"steps.xplane.pb": trace}, tool="TensorFlow profiler",
        machine=Machine.model_validate(machine),
    )  # fmt: skip
    views = kernel_views(profile)
    kernels = views["kernels"].set_index("category")
    assert kernels["total_s"].to_dict() == {"GEMM": 5.0, "memcpy": 1.0}
    assert kernels["device_busy_ratio"].isna().all()
    assert views["lanes"].empty
    assert views["overlap"].empty
