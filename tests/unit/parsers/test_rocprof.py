"""rocprofv3: kernel and copy traces as CSV and JSON; categories of AMD's kernels; damage."""

import json

import pytest
from unit.parsers.damage import check_cuts, check_foreign
from unit.parsers.tool_output import hand_made
from unit.refusals import refused

from hpcai.core.errors import ParseError
from hpcai.metrics.profiles.kernels import categorise, kernel_breakdown
from hpcai.parsers.registry import read_artefact
from hpcai.parsers.rocprof import COLUMNS, OTHER_SHAPE, ROOT, read_rocprof


def test_a_kernel_trace_has_a_row_per_launch():
    reading = read_rocprof(hand_made("rocprofv3_kernel_trace.csv"))
    assert reading.is_whole
    table = reading.table
    assert list(table.columns) == list(COLUMNS)
    assert table["kind"].to_list() == ["kernel"] * 4 + ["memset", "kernel"]
    assert table["duration_s"].sum() == pytest.approx(1040e-6)
    assert table["start_s"].iloc[1] - table["start_s"].iloc[0] == pytest.approx(500e-6, abs=1e-9)
    assert set(table["device"]) == {"Agent 4"}


def test_the_kernels_of_amd_s_libraries_have_their_categories():
    table = read_rocprof(hand_made("rocprofv3_kernel_trace.csv")).table
    assert categorise(table["name"]).to_list() == [
        "convolution", "GEMM", "element-wise", "other collectives", "memcpy", "GEMM",
    ]  # fmt: skip
    kernels = table.groupby(["name", "kind", "device"], as_index=False).agg(
        calls=("duration_s", "size"), total_s=("duration_s", "sum")
    )
    shares = kernel_breakdown(kernels).set_index("category")
    assert shares.loc["GEMM", "calls"] == 2
    assert shares.loc["GEMM", "share_ratio"] == pytest.approx(330 / 1040)


def test_copies_have_directions_and_json_has_their_bytes():
    copies = read_rocprof(hand_made("rocprofv3_memory_copy_trace.csv")).table
    assert set(copies["kind"]) == {"memcpy"}
    assert copies["name"].iloc[0] == "MEMORY_COPY_HOST_TO_DEVICE"
    reading = read_rocprof(hand_made("rocprofv3_results.json"))
    assert (reading.complete_records, reading.seen_records) == (2, 3)  # one ends before it starts
    kernel, copy = reading.table.to_dict("records")
    assert (kernel["name"][:5], kernel["device"], kernel["duration_s"]) == ("Cijk_", "Agent 4", pytest.approx(2e-4))
    assert (copy["kind"], copy["bytes"], copy["device"]) == ("memcpy", 4e6, "Agent 4")


EARLIER_KERNELS = """\
"Kind","Agent_Id","Queue_Id","Thread_Id","Dispatch_Id","Kernel_Id","Kernel_Name","Correlation_Id","Start_Timestamp",\
"End_Timestamp","Private_Segment_Size","Group_Segment_Size","Workgroup_Size_X","Grid_Size_X"
"KERNEL_DISPATCH",4,1,4711,1,2,"__amd_rocclr_initHeap",3,5000000000000,5000000000100,0,0,256,256
"KERNEL_DISPATCH",4,1,4711,2,18,"series(float*, unsigned long)",3,5000000300000,5000000700000,1024,0,256,100000
"""
EARLIER_COPIES = """\
"Kind","Direction","Source_Agent_Id","Destination_Agent_Id","Correlation_Id","Start_Timestamp","End_Timestamp"
"MEMORY_COPY","HOST_TO_DEVICE",0,1,0,5000000000000,5000000500000
"MEMORY_COPY","DEVICE_TO_HOST",1,0,0,5000002000000,5000002600000
"""


def test_traces_of_rocm_6_have_fewer_columns_and_bare_numbers_of_agents(tmp_path):
    path = tmp_path / "4711_kernel_trace.csv"
    path.write_text(EARLIER_KERNELS)
    kernels = read_rocprof(path)
    assert kernels.is_whole
    assert kernels.table["kind"].to_list() == ["memset", "kernel"]
    assert kernels.table["duration_s"].to_list() == pytest.approx([1e-7, 4e-4])
    assert set(kernels.table["device"]) == {"4"}
    path.write_text(EARLIER_COPIES)
    copies = read_rocprof(path).table
    assert copies["name"].to_list() == ["HOST_TO_DEVICE", "DEVICE_TO_HOST"]
    assert set(copies["kind"]) == {"memcpy"}


def test_damaged_and_foreign_files(tmp_path):
    data = hand_made("rocprofv3_kernel_trace.csv").read_bytes()
    check_cuts(tmp_path / "cut.csv", data, read_rocprof, COLUMNS, has_end=False)
    check_foreign(tmp_path, read_rocprof)


@pytest.mark.parametrize(
    ("content", "part", "found"),
    [
        ([1], "[0]", "1"),
        (None, "[0]", "None"),
        ([{}, []], "[1]", "a list"),
        ([{"buffer_records": []}], "[0].buffer_records", "a list"),
        ([{"buffer_records": {"kernel_dispatch": 5}}], "[0].buffer_records.kernel_dispatch", "5"),
        ([{"buffer_records": {"kernel_dispatch": [{}, "a"]}}], "[0].buffer_records.kernel_dispatch[1]", "'a'"),
        ({"buffer_records": {"memory_copy": {}}}, "[0].buffer_records.memory_copy", "an object"),
        ({"buffer_records": {"memory_copy": [[]]}}, "[0].buffer_records.memory_copy[0]", "a list"),
    ],
)
def test_json_of_another_shape_is_refused_with_its_place(tmp_path, content, part, found):
    path = tmp_path / "results.json"
    path.write_text(json.dumps({ROOT: content}))
    with refused(ParseError, OTHER_SHAPE, place=str(path), part=ROOT + part, found=found):
        read_rocprof(path)


def test_records_without_their_facts_are_left_out(tmp_path):
    path = tmp_path / "results.json"
    content = json.loads(hand_made("rocprofv3_results.json").read_text())
    records = content[ROOT][0]["buffer_records"]
    records["kernel_dispatch"] += [{"dispatch_info": [1]}, {}]
    path.write_text(json.dumps(content))
    reading = read_rocprof(path)
    assert (reading.complete_records, reading.seen_records) == (2, 5)


def test_a_line_that_is_no_csv_is_left_out(tmp_path):
    path = tmp_path / "kernel_trace.csv"
    path.write_text(EARLIER_KERNELS + "7" * 200_000 + "," * 13 + "\n" + '"KERNEL_DISPATCH",4,"' + "\n\n")
    reading = read_rocprof(path)
    assert (reading.complete_records, reading.seen_records) == (2, 4)


@pytest.mark.parametrize(
    "name", ["rocprofv3_kernel_trace.csv", "rocprofv3_memory_copy_trace.csv", "rocprofv3_results.json"]
)
def test_it_is_told_apart_from_other_tools(name):
    assert read_artefact(hand_made(name)).tool == "a trace of rocprofv3"
