import math

import pytest
from unit.parsers.artefacts import cuts, flips, foreign, sample
from unit.refusals import refused, told

from hpcai.core.errors import ParseError
from hpcai.parsers.nsight.systems import (
    HALF_OF_COPIES,
    NOTHING_OF_KIND,
    ROWS_MISSING,
    TOOL,
    read_nsys_api,
    read_nsys_kernels,
    read_nsys_memory,
    read_nsys_os_runtime,
)
from hpcai.parsers.reading import NOTHING_READ

HEADER = "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name"
KERNELS = f"""{HEADER}
75.0,9000,3,3000.0,3000.0,2000,4000,1000.0,"void gemm<int, float>(float const*, int)"
20.8,2500,2,1250.0,1250.0,1000,1500,353.6,relu_kernel
4.2,500,1,500.0,500.0,500,500,0.0,"void at::native::reduce_kernel<(int)4, float>(T1)"
"""
OLD_KERNELS = """Time(%),Total Time (ns),Instances,Average,Minimum,Maximum,Name
75.0,9000,3,3000.0,2000,4000,gemm
25.0,3000,2,1500.0,1000,2000,relu_kernel
"""
STREAM = """loss 0.5
[3/8] Executing 'nvtx_sum' stats report
SKIPPED: /run/a.sqlite does not contain NV Tools Extension (NVTX) data.
[4/8] Executing 'osrt_sum' stats report

 Time (%)  Total Time (ns)  Num Calls   Avg (ns)     Med (ns)    Min (ns)   Max (ns)   StdDev (ns)  Name
 --------  ---------------  ---------  -----------  -----------  ---------  ---------  -----------  ----
    100.0        3,000,000          2  1,500,000.0  1,500,000.0  1,000,000  2,000,000    707,106.8  poll

[5/8] Executing 'cuda_api_sum' stats report

 Time (%)  Total Time (ns)  Num Calls  Avg (ns)  Med (ns)  Min (ns)  Max (ns)  StdDev (ns)        Name
 --------  ---------------  ---------  --------  --------  --------  --------  -----------  ----------------
     60.0            6,000          3   2,000.0   2,000.0     1,000     3,000      1,000.0  cudaMemcpyAsync
     40.0            4,000          1   4,000.0   4,000.0     4,000     4,000          0.0  cuLaunchKernel

[6/8] Executing 'cuda_gpu_kern_sum' stats report

 Time (%)  Total Time (ns)  Instances  Avg (ns)  Med (ns)  Min (ns)  Max (ns)  StdDev (ns)            Name
 --------  ---------------  ---------  --------  --------  --------  --------  -----------  --------------------------
     75.0            9,000          3   3,000.0   3,000.0     2,000     4,000      1,000.0  void gemm<(int)128, float…
     25.0            3,000          2   1,500.0   1,500.0     1,000     2,000        707.1  relu_kernel

[7/8] Executing 'cuda_gpu_mem_time_sum' stats report

 Time (%)  Total Time (ns)  Count  Avg (ns)  Med (ns)  Min (ns)  Max (ns)  StdDev (ns)            Operation
 --------  ---------------  -----  --------  --------  --------  --------  -----------  ------------------------------
     90.0            9,000      2   4,500.0   4,500.0     4,000     5,000        707.1  [CUDA memcpy Host-to-Device]
     10.0            1,000      1   1,000.0   1,000.0     1,000     1,000          0.0  [CUDA memset]

[8/8] Executing 'cuda_gpu_mem_size_sum' stats report

 Total (MB)  Count  Avg (MB)  Med (MB)  Min (MB)  Max (MB)  StdDev (MB)            Operation
 ----------  -----  --------  --------  --------  --------  -----------  ------------------------------
      3.000      2     1.500     1.500     1.000     2.000        0.707  [CUDA memcpy Host-to-Device]
      0.100      1     0.100     0.100     0.100     0.100        0.000  [CUDA memset]

Generated:
    /run/a.sqlite
"""
READERS = {
    "kernels": (read_nsys_kernels, KERNELS, "a_cuda_gpu_kern_sum.csv"),
    "stream kernels": (read_nsys_kernels, STREAM, "log.txt"),
    "stream memory": (read_nsys_memory, STREAM, "log.txt"),
    "stream api": (read_nsys_api, STREAM, "log.txt"),
}
NUMBERS = ["calls", "total_s", "mean_s", "min_s", "max_s", "median_s", "deviation_s", "bytes"]


def write(tmp_path, text, name="stats.txt"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_a_csv_report_becomes_kernels_in_seconds(tmp_path):
    reading = read_nsys_kernels(write(tmp_path, KERNELS))
    table = reading.table
    assert reading.is_whole
    assert table["name"].tolist()[0] == "void gemm<int, float>(float const*, int)"
    assert table["total_s"].tolist() == pytest.approx([9e-6, 2.5e-6, 0.5e-6])
    assert table["calls"].tolist() == [3, 2, 1]
    assert table[["mean_s", "min_s", "max_s"]].iloc[0].tolist() == pytest.approx([3e-6, 2e-6, 4e-6])
    assert set(table["kind"]) == {"kernel"}
    assert table["device"].isna().all()
    assert table["bytes"].isna().all()


def test_columns_of_older_versions_are_known(tmp_path):
    table = read_nsys_kernels(write(tmp_path, OLD_KERNELS, "report_gpukernsum.csv")).table
    assert table["total_s"].sum() == pytest.approx(12e-6)
    assert table["median_s"].isna().all()


def test_another_time_unit_is_converted(tmp_path):
    text = OLD_KERNELS.replace("(ns)", "(us)")
    assert read_nsys_kernels(write(tmp_path, text)).table["total_s"].sum() == pytest.approx(12e-3)


def test_reports_of_one_stream_are_told_apart(tmp_path):
    path = write(tmp_path, STREAM)
    kernels = read_nsys_kernels(path)
    assert kernels.table["total_s"].tolist() == pytest.approx([9e-6, 3e-6])
    assert "1 names are cut" in kernels.reasons[0]
    assert "NVTX" in kernels.facts["skipped"]
    copies = read_nsys_memory(path).table.set_index("name")
    assert copies.loc["[CUDA memcpy Host-to-Device]", ["calls", "total_s", "bytes"]].tolist() == pytest.approx(
        [2, 9e-6, 3e6]
    )
    assert copies.loc["[CUDA memset]", "kind"] == "memset"
    assert read_nsys_api(path).table["name"].tolist() == ["cudaMemcpyAsync", "cuLaunchKernel"]
    assert read_nsys_os_runtime(path).table["total_s"].tolist() == pytest.approx([3e-3])


def test_calls_of_cuda_and_of_the_system_are_told_apart_without_a_title(tmp_path):
    api = HEADER.replace("Instances", "Num Calls") + "\n100.0,9000,3,3000.0,3000.0,2000,4000,1000.0,cudaMemcpy\n"
    assert read_nsys_api(write(tmp_path, api)).table["calls"].item() == 3
    with refused(ParseError, NOTHING_READ, found=NOTHING_OF_KIND(kinds="CUDA API", found="OS runtime (1 rows)")):
        read_nsys_api(write(tmp_path, api.replace("cudaMemcpy", "poll")))


def test_a_skipped_report_is_an_error_and_not_zero(tmp_path):
    text = "Executing 'cuda_gpu_kern_sum' stats report\nSKIPPED: a.sqlite does not contain CUDA kernel data.\n"
    with pytest.raises(ParseError, match="does not contain CUDA"):
        read_nsys_kernels(write(tmp_path, text))


def test_a_report_that_occurs_twice_is_refused(tmp_path):
    with pytest.raises(ParseError, match="more than once"):
        read_nsys_kernels(write(tmp_path, KERNELS + "\n" + KERNELS))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("20.8,2500,2,", "20.8,2600,2,"),
        ("20.8,2500,2,", "20.8,2500,3,"),
        (",1250.0,1250.0,1000,", ",1350.0,1250.0,1000,"),
        (",1000,1500,353.6", ",1300,1500,353.6"),
        (",1000,1500,353.6", ",1000,1501,953.6"),
        ("relu_kernel", ""),
        ("2500", "25OO"),
    ],
)
def test_a_row_that_contradicts_itself_is_left_out(tmp_path, old, new):
    reading = read_nsys_kernels(write(tmp_path, KERNELS.replace(old, new)))
    assert reading.table["calls"].tolist() == [3, 1]
    assert reading.coverage_ratio == pytest.approx(2 / 3)
    assert any("line 3" in reason for reason in reading.reasons)


def test_missing_rows_show_in_the_percentages(tmp_path):
    lines = KERNELS.splitlines()
    reading = read_nsys_kernels(write(tmp_path, "\n".join(lines[:3]) + "\n"))
    assert len(reading.table) == 2
    assert told(reading.reasons[0], ROWS_MISSING) == {"missing_percent": "4.1", "kind": "kernels"}


def test_a_last_line_without_its_end_is_no_row(tmp_path):
    reading = read_nsys_kernels(write(tmp_path, OLD_KERNELS.removesuffix("kernel\n")))
    assert reading.table["name"].tolist() == ["gemm"]
    assert any("no whole row" in reason for reason in reading.reasons)


def test_a_file_of_times_alone_is_whole(tmp_path):
    """Each report that is asked for has a file of its own: that of the times lacks no sizes."""
    begin, end = STREAM.index("[7/8]"), STREAM.index("[8/8]")
    reading = read_nsys_memory(write(tmp_path, STREAM[begin:end]))
    assert reading.is_whole
    assert reading.table["total_s"].notna().all()
    assert reading.table["bytes"].isna().all()
    cut = read_nsys_memory(write(tmp_path, STREAM[:end]))
    told(cut.reasons[0], HALF_OF_COPIES)  # a stream of all reports that ends too early


def test_sizes_without_times_have_a_reason(tmp_path):
    reading = read_nsys_memory(write(tmp_path, STREAM[STREAM.index("[8/8]") :]))
    assert reading.table["total_s"].isna().all()
    assert reading.table["bytes"].sum() == pytest.approx(3.1e6)
    told(reading.reasons[0], HALF_OF_COPIES)


@pytest.mark.parametrize(
    "kind", ["empty", "blanks", "prose", "html", "binary", "gzip", "elf", "latin1", "one huge line", "nul"]
)
def test_foreign_files_are_refused(tmp_path, kind):
    with pytest.raises(ParseError, match=f"expected {TOOL}"):
        read_nsys_kernels(foreign(tmp_path)[kind])


def rows_of(table):
    values = table[NUMBERS].itertuples(index=False, name=None)
    return {(name, index): row for index, (name, row) in enumerate(zip(table["name"], values, strict=True))}


@pytest.mark.parametrize("name", READERS)
def test_a_cut_yields_whole_rows_or_an_error(tmp_path, name):
    read, text, file_name = READERS[name]
    whole = read(write(tmp_path, text, file_name))
    expected = rows_of(whole.table)
    for _, data in cuts(text.encode()):
        try:
            reading = read(write(tmp_path, data, file_name))
        except ParseError:
            continue
        rows = rows_of(reading.table)
        for key, row in rows.items():
            assert all(value == known or math.isnan(value) for value, known in zip(row, expected[key], strict=True))
        measured = [value for row in rows.values() for value in row if not math.isnan(value)]
        if len(measured) < sum(not math.isnan(value) for row in expected.values() for value in row):
            assert set(reading.reasons) - set(whole.reasons)


@pytest.mark.parametrize("name", READERS)
def test_a_flipped_bit_changes_no_total(tmp_path, name):
    """Names, medians, sizes of copies, and extremes and deviations within their bounds may change undetected."""
    read, text, file_name = READERS[name]
    expected = read(write(tmp_path, text, file_name)).table
    for _, data in flips(text.encode()):
        try:
            reading = read(write(tmp_path, data, file_name))
        except ParseError:
            continue
        for row in reading.table.itertuples():
            assert math.isnan(row.total_s) or (row.calls, row.total_s) in set(
                zip(expected["calls"], expected["total_s"], strict=True)
            )
        if len(reading.table) < len(expected):
            assert reading.reasons


def test_expected_values_of_the_samples():
    kernels = read_nsys_kernels(sample("nsys/resnet18_cuda_gpu_kern_sum.csv"))
    assert kernels.is_whole
    assert (len(kernels.table), kernels.table["calls"].sum()) == (36, 8734)
    assert kernels.table["total_s"].sum() == pytest.approx(751964099e-9)
    api = read_nsys_api(sample("nsys/resnet18_cuda_api_sum.csv"))
    assert api.is_whole
    assert (len(api.table), api.table["calls"].sum()) == (34, 13429)
    assert api.table["total_s"].sum() == pytest.approx(886649368e-9)
    gru = read_nsys_kernels(sample("nsys/gru_cuda_gpu_kern_sum.csv"))
    assert gru.is_whole
    assert (len(gru.table), gru.table["calls"].sum()) == (8, 652)
    assert gru.table["total_s"].sum() == pytest.approx(11211312e-9)


@pytest.mark.parametrize(
    ("read", "rows", "calls", "total_ns"),
    [
        (read_nsys_kernels, 19, 69, 277215),
        (read_nsys_memory, 3, 106, 155200),
        (read_nsys_api, 12, 697, 1480269912),
        (read_nsys_os_runtime, 29, 6161, 3315317770),
    ],
)
def test_expected_values_of_the_text_sample(read, rows, calls, total_ns):
    reading = read(sample("nsys/gcn_stats_text.txt"))
    assert (len(reading.table), reading.table["calls"].sum()) == (rows, calls)
    assert reading.table["total_s"].sum() == pytest.approx(total_ns * 1e-9)
    assert "NVTX" in reading.facts["skipped"]
    assert all("names are cut" in reason for reason in reading.reasons)


def test_another_report_is_refused_by_what_it_is():
    with pytest.raises(ParseError, match="no kernels: CUDA API"):
        read_nsys_kernels(sample("nsys/resnet18_cuda_api_sum.csv"))


def test_damaged_samples_keep_their_totals(tmp_path):
    data = sample("nsys/resnet18_cuda_gpu_kern_sum.csv").read_bytes()
    table = read_nsys_kernels(sample("nsys/resnet18_cuda_gpu_kern_sum.csv")).table
    totals = set(table["total_s"])
    for _, damaged in [*cuts(data, 15), *flips(data, 40)]:
        try:
            reading = read_nsys_kernels(write(tmp_path, damaged))
        except ParseError:
            continue
        # The mean is printed in tenths: a change of the total below calls / 20 ns is undetectable.
        assert all(min(abs(total - known) for known in totals) < 90e-9 for total in reading.table["total_s"])
        if len(reading.table) < len(table):
            assert reading.reasons
