"""Truncated or changed nvprof files: rows equal the original's, or are missing with a reason."""

import math

import pandas as pd
import pytest
from unit.parsers.artefacts import cuts, flips, sample
from unit.parsers.nvprof.totals import add_up_counter

from hpcai.core.errors import ParseError
from hpcai.parsers.nvprof.reader import read_nvprof_counters, read_nvprof_summary, read_nvprof_trace

SAMPLES = {
    "summary_deepspeech_fp16_p100.txt": read_nvprof_summary,
    "summary_jacobi_k20c_oldformat.csv": read_nvprof_summary,
    "summary_transpose_v100s_noprologue.csv": read_nvprof_summary,
    "gputrace_dcgan_fp16_tegrax1.csv": read_nvprof_trace,
    "gputrace_jacobi_k20c_oldformat.csv": read_nvprof_trace,
    "events_and_metrics_cheby_k40c.csv": read_nvprof_counters,
    "metrics_all_j3d27pt_k20c.csv": read_nvprof_counters,
    "metrics_dcgan_fp16_tegrax1.csv": read_nvprof_counters,
    "metrics_deepspeech_p100.txt": read_nvprof_counters,
    "metrics_transpose_v100s_noprologue.csv": read_nvprof_counters,
}
# Fields on which nothing else in the file depends, or only within a range: names; a launch's time within the gaps next
# to it; least and greatest as far as the mean allows; the mean within least and greatest, and its product.
UNCHECKED = {
    read_nvprof_summary: {"name", "min_s", "max_s"},
    read_nvprof_trace: {"name", "device", "stream", "start_s", "duration_s"},
    read_nvprof_counters: {"name", "device", "metric", "minimum", "maximum", "mean", "total"},
}


def records(table: pd.DataFrame) -> list[tuple[object, ...]]:
    return [tuple("missing" if pd.isna(cell) else cell for cell in row) for row in table.itertuples(index=False)]


def changed_fields(row: tuple[object, ...], originals: list[tuple[object, ...]], columns: list[str]) -> set[str]:
    """Return the columns in which a row differs from the most similar original; "missing" is no change."""
    differences = [
        {column for column, new, old in zip(columns, row, original, strict=True) if new not in {old, "missing"}}
        for original in originals
    ]
    return min(differences, key=len)


def read_damaged(tmp_path, read, data):
    path = tmp_path / "damaged"
    path.write_bytes(data)
    try:
        return read(path)
    except ParseError:
        return None


@pytest.mark.parametrize("name", SAMPLES)
def test_cut(tmp_path, name):
    path, read = sample(f"nvprof/{name}"), SAMPLES[name]
    original = read(path)
    rows = records(original.table)
    for place, data in cuts(path.read_bytes(), 8):
        reading = read_damaged(tmp_path, read, data)
        if reading is not None:
            columns = list(reading.table)
            assert not any(changed_fields(row, rows, columns) for row in set(records(reading.table)) - set(rows)), place
            assert len(reading.table) == len(rows) or len(reading.reasons) > len(original.reasons), place


@pytest.mark.parametrize("name", SAMPLES)
def test_flipped_bit(tmp_path, name):
    path, read = sample(f"nvprof/{name}"), SAMPLES[name]
    original = read(path)
    rows = records(original.table)
    for place, data in flips(path.read_bytes(), 15):
        reading = read_damaged(tmp_path, read, data)
        if reading is not None:
            columns = list(reading.table)
            for row in set(records(reading.table)) - set(rows):
                assert changed_fields(row, rows, columns) <= UNCHECKED[read], place
            assert len(reading.table) == len(rows) or len(reading.reasons) > len(original.reasons), place


SUMMARY = """\
==7== Profiling result:
"Type","Time(%)","Time","Calls","Avg","Min","Max","Name"
,%,ms,,us,us,us,
"GPU activities",62.500000,5.000000,4,1250.000000,1000.000000,1500.000000,"f(int)"
"GPU activities",25.000000,2.000000,2,1000.000000,900.000000,1100.000000,"g(int)"
"GPU activities",12.500000,1.000000,1,1000.000000,1000.000000,1000.000000,"[CUDA memset]"
"API calls",100.000000,9.000000,4,2250.000000,1000.000000,3000.000000,"cudaLaunchKernel"
"""
TEXT_SUMMARY = """\
==7== Profiling result:
            Type  Time(%)      Time     Calls       Avg       Min       Max  Name
 GPU activities:   80.00%  4.0000ms         4  1.0000ms  999.00us  1.0010ms  f(int)
                   20.00%  1.0000ms         1  1.0000ms  1.0000ms  1.0000ms  g(int)
      API calls:   60.00%  6.0000ms         4  1.5000ms  1.0000ms  3.0000ms  cudaLaunchKernel
                   40.00%  4.0000ms         4  1.0000ms  1.0000ms  1.0000ms  cudaFree
"""
TRACE = """\
"Start","Duration","Grid X","Grid Y","Grid Z","Size","Throughput","Device","Context","Stream","Name","Correlation_ID"
ms,us,,,,KB,GB/s,,,,,
1.000000,100.000000,,,,500.000000,5.000000,"K20 (0)","1","7","[CUDA memcpy HtoD]",101
1.200000,300.000000,8,1,1,,,"K20 (0)","1","7","f(int)",102
1.600000,300.000000,8,1,1,,,"K20 (0)","1","7","f(int)",103
2.000000,200.000000,,,,500.000000,2.500000,"K20 (0)","1","7","[CUDA memcpy DtoH]",104
"""
COUNTERS = """\
==7== Metric result:
"Device","Kernel","Invocations","Metric Name","Metric Description","Min","Max","Avg"
"K20 (0)","f(int)",3,"flop_count_sp","Operations",50,50,50
"K20 (0)","f(int)",3,"flop_count_sp_add","Additions",10,10,10
"K20 (0)","f(int)",3,"flop_count_sp_mul","Products",20,20,20
"K20 (0)","f(int)",3,"flop_count_sp_fma","Both",10,10,10
"K20 (0)","g(int)",1,"flop_count_sp","Operations",7,7,7
"K20 (0)","g(int)",1,"flop_count_sp_add","Additions",7,7,7
"K20 (0)","g(int)",1,"flop_count_sp_mul","Products",0,0,0
"K20 (0)","g(int)",1,"flop_count_sp_fma","Both",0,0,0
"""
TEXT_COUNTERS = """\
==7== Metric result:
Invocations     Metric Name     Metric Description    Min    Max    Avg
Device "K20 (0)"
    Kernel: f(int)
          3             ipc           Executed IPC   1.00   2.00   1.50
    Kernel: g(int)
          1             ipc           Executed IPC   1.00   1.00   1.00
"""


def damage(tmp_path, text, old, new):
    assert text.count(old) >= 1
    path = tmp_path / "damaged"
    path.write_text(text.replace(old, new, 1))
    return path


@pytest.mark.parametrize(
    ("old", "new", "left", "reason"),
    [
        ("5.000000,4,", "1.000000,4,", 2, "calls x mean is not its time"),
        ("2.000000,2,", "2.000000,6,", 2, "calls x mean is not its time"),
        ("2.000000,2,", "2.000000,\x32\x2b,", 2, "a number or its unit is damaged"),
        ("900.000000", "980.000000", 2, "its least and its greatest do not allow its time"),
        ("25.000000,2", "35.000000,2", 2, "its percentage is not its share"),
        ('"GPU activities",25', '"GPU actirities",25', 2, "its type is unknown"),
        ('"GPU activities",25', '"GPU activities"l25', 2, "no row of its table"),
        ("[CUDA memset]", "[CUDA mimset]", 2, "its name is none"),
        ('"g(int)"\n', '"g(int)"J', 1, "no row of its table"),
        (
            '"GPU activities",12.500000,1.000000,1,1000.000000,1000.000000,1000.000000,"[CUDA memset]"\n',
            "",
            2,
            "87.5 %",
        ),
    ],
)
def test_rows_of_a_summary(tmp_path, old, new, left, reason):
    reading = read_nvprof_summary(damage(tmp_path, SUMMARY, old, new))
    assert len(reading.table) == left
    assert any(reason in sentence for sentence in reading.reasons)
    assert reading.coverage_ratio < 1 or "%" in reason


@pytest.mark.parametrize(("old", "new"), [('"Type"', '"Typa"'), (",%,ms", ",%,os"), ('"Calls","Avg"', '"Calls"l"Avg"')])
def test_header_or_units_of_a_summary(tmp_path, old, new):
    with pytest.raises(ParseError, match="no whole row"):
        read_nvprof_summary(damage(tmp_path, SUMMARY, old, new))


@pytest.mark.parametrize(
    ("old", "new"),
    [("      API calls:", "      API camls:"), ("g(int)\n", "g(int)J"), ("      API calls:", "   0  API calls:")],
)
def test_calls_are_not_taken_for_kernels(tmp_path, old, new):
    reading = read_nvprof_summary(damage(tmp_path, TEXT_SUMMARY, old, new))
    assert set(reading.table["name"]) <= {"f(int)", "g(int)"}
    assert reading.reasons


def test_titles_of_an_nvtx_section_are_not_needed(tmp_path):
    text = TEXT_SUMMARY + "\n==7== MVTX result:\n" + "\n".join(TEXT_SUMMARY.split("\n")[1:2])
    text += "\n          Range:  100.00%  9.0000ms         1  9.0000ms  9.0000ms  9.0000ms  step\n"
    text += "\n".join(TEXT_SUMMARY.split("\n")[2:])
    assert read_nvprof_summary(damage(tmp_path, text, "==7==", "==7==")).table["calls"].tolist() == [4, 1]


@pytest.mark.parametrize(
    ("old", "new", "left", "reason"),
    [
        ("500.000000,5.0", "900.000000,5.0", 3, "size / duration"),
        ("1.600000,300", "5.600000,300", 3, "out of order"),
        ("1.600000,300", "1.600000,700", 3, "beyond the start of the next"),
        ("[CUDA memcpy HtoD]", "{CUDA memcpy HtoD]", 3, "none of a kernel or copy"),
        ('"7","f(int)",103\n', '"7","f(int)",103J', 2, "no row of its table"),
        ("104\n", "10", 3, "the file ends within it"),
    ],
)
def test_rows_of_a_trace(tmp_path, old, new, left, reason):
    reading = read_nvprof_trace(damage(tmp_path, TRACE, old, new))
    assert len(reading.table) == left
    assert any(reason in sentence for sentence in reading.reasons)
    assert reading.coverage_ratio < 1


def test_column_of_a_trace(tmp_path):
    with pytest.raises(ParseError, match=r"no whole row .*header"):
        read_nvprof_trace(damage(tmp_path, TRACE, '"Size"', '"Siza"'))


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('Operations",50,50,50', 'Operations",50,50,40', "contradict each other"),
        ('Operations",50,50,50', 'Operations",70,70,70', "add + mul + 2 x fma"),
        ('3,"flop_count_sp"', '2,"flop_count_sp"', "its launches differ"),
        ("flop_count_sp_fma", "flop_count_sp_fme", "lacks"),
        ('"f(int)",3,"flop_count_sp"', '"e(int)",3,"flop_count_sp"', "lacks"),
        ('Both",0,0,0\n', "", "the file ends within"),
        ('"K20 (0)","g(int)",1,"flop_count_sp_fma","Both",0,0,0\n', "", "lacks flop_count_sp_fma"),
    ],
)
def test_counters(tmp_path, old, new, reason):
    whole = read_nvprof_counters(damage(tmp_path, COUNTERS, "==7==", "==7=="))
    assert whole.is_whole
    assert add_up_counter(whole.table, "flop_count_sp") == 157
    reading = read_nvprof_counters(damage(tmp_path, COUNTERS, old, new))
    assert any(reason in sentence for sentence in reading.reasons)
    total = add_up_counter(reading.table, "flop_count_sp")
    assert math.isnan(total) or total == 157 or reading.coverage_ratio < 1


@pytest.mark.parametrize("new", ["    Kerjel: g", "    \x0bernel: g", "  8 Kernel: g", "   \tkernel: g"])
def test_counters_are_not_given_to_the_kernel_before(tmp_path, new):
    reading = read_nvprof_counters(damage(tmp_path, TEXT_COUNTERS, "    Kernel: g", new))
    assert reading.table["name"].tolist() == ["f(int)"]
    assert reading.coverage_ratio < 1


def test_line_end_before_a_kernel(tmp_path):
    with pytest.raises(ParseError, match="skipped lines 5, 6"):
        read_nvprof_counters(damage(tmp_path, TEXT_COUNTERS, "1.50\n", "1.50J"))
