import math
import re

import pytest
from unit.parsers.artefacts import cuts, flips, foreign, sample

from hpcai.core.errors import ParseError
from hpcai.parsers.nsight.compute import read_ncu
from hpcai.parsers.nsight.compute_pages import TOOL

KEY = ["process", "launch", "name", "block_size", "grid_size", "metric", "unit"]
SAMPLES = {
    "details_bert_attention_a100.csv": (26, 12, 1534),
    "details_linear_small_a100.csv": (2, 2, 42),
    "details_fp8_gemm_b200_baseunits.log": (1, 1, 47),
    "details_climate_a100_scaledunits.csv": (6, 6, 468),
    "raw_flash_sdpa_b200.csv": (16, 1, 7312),
    "summary_per_kernel_metrics_a100.csv": (200, 2, 22),
    "summary_per_kernel_timing_a100.csv": (200, 2, 2),
    "details_gemm_tiled_rtx5070_bom.csv": (1, 1, 12),
    "details_nvtx_paddle_linear_mixed_stdout.csv": (2, 2, 20),
}


def quoted(*fields):
    return ",".join(f'"{field}"' for field in fields)


IDENTITY = ("7", "train", "host")
HEADER = quoted(
    *("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Section Name"),
    *("Metric Name", "Metric Unit", "Metric Value", "Rule Name", "Rule Type"),
)


def details(launches=3, separators=",."):
    """Our own details page: prologue, program output, launches with four metrics, a rule row, an epilogue."""
    group, decimal = separators
    lines = ["==PROF== Connected to process 7 (train)", 'loss "0.1","0.2"', HEADER]
    for launch in range(launches):
        begin = (str(launch), *IDENTITY, f"void copy<{launch % 2}, float>(a, b)", "1", "7", "Speed")
        for metric, unit, value in (
            ("gpu__time_duration.sum", "usecond", f"1{group}00{launch}{decimal}50"),
            ("dram__bytes.sum", "Kbyte", f"2{group}000{decimal}25"),
            ("Memory Throughput", "%", f"50{decimal}00"),
            ("Memory Throughput", "Gbyte/s", f"12{decimal}50"),
        ):
            lines.append(quoted(*begin, metric, unit, value) + ",")
        lines.append(quoted(*begin, "Function Cache Configuration", "", "CachePreferNone") + ",")
        lines.append(quoted(*begin, "", "", "", "Bottleneck", "WRN"))
    return "\n".join([*lines, "", "==PROF== Disconnected from process 7", ""])


def write(tmp_path, text, name="ncu.csv"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def rows_of(table):
    numbers = table[["launches", "minimum", "maximum", "mean"]].fillna(-1.0).itertuples(index=False, name=None)
    return dict(zip(map(str, table[KEY].itertuples(index=False, name=None)), numbers, strict=True))


def value(table, metric, launch=0, unit=None, column="mean"):
    rows = table[(table["metric"] == metric) & (table["launch"].isna() | (table["launch"] == launch))]
    rows = rows if unit is None else rows[rows["unit"] == unit]
    assert len(rows) == 1
    return rows[column].item()


@pytest.mark.parametrize("separators", [",.", ".,", " ,", "'."])
def test_a_details_page_is_read_in_any_locale(tmp_path, separators):
    reading = read_ncu(write(tmp_path, details(separators=separators)))
    table = reading.table
    assert reading.is_whole
    assert len(table) == 12
    assert value(table, "gpu__time_duration.sum", launch=2) == pytest.approx(1002.5e-6)
    assert value(table, "dram__bytes.sum") == pytest.approx(2000250)
    assert value(table, "Memory Throughput", unit="ratio") == pytest.approx(0.5)
    assert value(table, "Memory Throughput", unit="byte/s") == pytest.approx(12.5e9)
    assert math.isnan(value(table, "Memory Throughput", unit="ratio", column="total"))
    assert reading.facts["launches"] == 3
    assert reading.facts["kernels"] == 2


def test_byte_order_mark_and_windows_line_ends_change_nothing(tmp_path):
    plain = read_ncu(write(tmp_path, details()))
    windows = read_ncu(write(tmp_path, b"\xef\xbb\xbf" + details().replace("\n", "\r\n").encode()))
    assert rows_of(plain.table) == rows_of(windows.table)
    utf16 = read_ncu(write(tmp_path, details().encode("utf-16")))
    assert rows_of(plain.table) == rows_of(utf16.table)


def test_numbers_that_leave_their_separators_open_are_not_guessed(tmp_path):
    text = details().replace("2,000.25", "2,000").replace(".50", "").replace("50.00", "50")
    reading = read_ncu(write(tmp_path, text))
    assert set(reading.table["metric"]) == {"Memory Throughput"}
    assert "separators leave it open" in reading.reasons[0]
    assert reading.coverage_ratio == pytest.approx(0.5)


def test_what_ncu_could_not_measure_is_nan_and_words_are_left_out(tmp_path):
    reading = read_ncu(write(tmp_path, details().replace("2,000.25", "(!) n/a")))
    assert reading.is_whole
    assert math.isnan(value(reading.table, "dram__bytes.sum"))
    assert "Function Cache Configuration" not in set(reading.table["metric"])


def test_a_cell_longer_than_any_is_left_out(tmp_path):
    path = tmp_path / "ncu.csv"
    lines = details().splitlines()
    row = next(number for number, line in enumerate(lines) if "void copy" in line)
    lines[row] = lines[row].replace("void copy", "x" * 131_073)
    path.write_text("\n".join(lines) + "\n")
    reading = read_ncu(path)
    assert reading.reasons
    assert not reading.table["name"].str.contains("xx").any()


def test_an_unknown_unit_is_left_out_with_a_reason(tmp_path):
    reading = read_ncu(write(tmp_path, details().replace("Kbyte", "Furlong")))
    assert "dram__bytes.sum" not in set(reading.table["metric"])
    assert "(Furlong)" in reading.reasons[0]


def test_launches_of_two_processes_have_the_same_numbers(tmp_path):
    both = details() + "\n".join(details().replace('"7","train"', '"8","train"').splitlines()[3:])
    reading = read_ncu(write(tmp_path, both))
    assert len(reading.table) == 24
    assert reading.facts["launches"] == 6


def test_an_error_of_the_program_is_a_reason(tmp_path):
    reading = read_ncu(write(tmp_path, details() + "==ERROR== The application returned an error code (11).\n"))
    assert "error code (11)" in reading.reasons[0]


def test_contradicting_rows_and_repeated_values_leave_out_a_launch_or_a_metric(tmp_path):
    text = details()
    renamed = text.replace("copy<1, float>", "copy<9, float>", 1)
    reading = read_ncu(write(tmp_path, renamed))
    assert set(reading.table["launch"]) == {0, 2}
    assert "contradict one another" in reading.reasons[0]
    repeated = text.replace('"dram__bytes.sum","Kbyte","2,000.25"', '"gpu__time_duration.sum","us","9.25"', 1)
    reading = read_ncu(write(tmp_path, repeated))
    assert not ((reading.table["metric"] == "gpu__time_duration.sum") & (reading.table["launch"] == 0)).any()
    assert any("lacks metrics such as" in reason and "dram__bytes.sum" in reason for reason in reading.reasons)


def test_a_duration_that_contradicts_its_cycles_leaves_out_the_launch(tmp_path):
    text = details().replace("Memory Throughput", "SM Frequency").replace('"%","50.00"', '"Ghz","1.00"')
    text = text.replace('"SM Frequency","Gbyte/s","12.50"', '"Elapsed Cycles","cycle","1,002,000"')
    assert read_ncu(write(tmp_path, text)).is_whole
    reading = read_ncu(write(tmp_path, text.replace("1,001.50", "5,001.50")))
    assert set(reading.table["launch"]) == {0, 2}
    assert "contradicts its cycles" in reading.reasons[0]


def test_a_cut_within_the_last_launch_leaves_it_out(tmp_path):
    lines = details().splitlines()
    reading = read_ncu(write(tmp_path, "\n".join(lines[:16]) + "\n"))
    assert set(reading.table["launch"]) == {0, 1}
    assert "the file is cut" in reading.reasons[0]


def raw_page():
    header = ("ID", "Process ID", "Kernel Name", "Block Size", "Grid Size", "Device", "CC", "gpu__time_duration.sum")
    header += ("dram__bytes.sum", "launch__func_cache_config", "l2__hits.pct")
    units = ("",) * 7 + ("ns", "byte", "", "%")
    rows = [
        (
            str(row),
            "7",
            "mul",
            "(8, 1, 1)",
            "(2, 1, 1)",
            "0",
            "8.0",
            f"10{row}",
            "4096.00",
            "PreferNone",
            "" if row else "12.50",
        )
        for row in range(3)
    ]
    return "\n".join(quoted(*row) for row in (header, units, *rows)) + "\n"


def test_a_raw_page_is_read_with_its_row_of_units(tmp_path):
    reading = read_ncu(write(tmp_path, raw_page()))
    assert reading.is_whole
    assert value(reading.table, "gpu__time_duration.sum", launch=1) == pytest.approx(101e-9)
    assert value(reading.table, "l2__hits.pct") == pytest.approx(0.125)
    assert math.isnan(value(reading.table, "l2__hits.pct", launch=1))
    assert reading.facts["compute_capability"] == "8.0"
    assert reading.facts["page"] == "raw"


def test_a_raw_page_without_its_row_of_units_is_refused(tmp_path):
    lines = raw_page().splitlines()
    with pytest.raises(ParseError, match="without its row of units"):
        read_ncu(write(tmp_path, "\n".join([lines[0], *lines[2:]])))


def summary_page(average="15.00"):
    header = ("Process ID", "Process Name", "Host Name", "Kernel Name", "Block Size", "Grid Size", "Device", "CC")
    header += ("Invocations", "Section Name", "Metric Name", "Metric Unit", "Minimum", "Maximum", "Average")
    row = ("7", "a", "h", "mul", "(8, 1, 1)", "(2, 1, 1)", "0", "8.0", "1,000", "S", "dram__sectors.sum", "sector")
    return f"{quoted(*header)}\n{quoted(*row, '10.00', '20.00', average)}\n"


def test_a_summary_counts_launches_times_mean(tmp_path):
    table = read_ncu(write(tmp_path, summary_page())).table
    assert value(table, "dram__sectors.sum", column="total") == 15000
    assert table["launches"].item() == 1000
    assert table["launch"].isna().all()


def test_a_mean_outside_minimum_and_maximum_is_refused(tmp_path):
    with pytest.raises(ParseError, match="minimum, mean and maximum contradict"):
        read_ncu(write(tmp_path, summary_page(average="25.00")))


@pytest.mark.parametrize(
    "kind", ["empty", "blanks", "prose", "html", "binary", "gzip", "elf", "latin1", "one huge line", "nul"]
)
def test_foreign_files_are_refused(tmp_path, kind):
    with pytest.raises(ParseError, match=re.escape(f"expected {TOOL}")):
        read_ncu(foreign(tmp_path)[kind])


def test_no_kernels_is_an_error_that_says_what_ncu_said(tmp_path):
    with pytest.raises(ParseError, match=r"no kernels.*No kernels were profiled"):
        read_ncu(write(tmp_path, "==PROF== Connected\n==WARNING== No kernels were profiled.\n"))
    with pytest.raises(ParseError, match="no kernels"):
        read_ncu(write(tmp_path, HEADER + "\n"))
    with pytest.raises(ParseError, match="without the columns Metric Value"):
        read_ncu(write(tmp_path, details().replace("Metric Value", "Metric Valve")))
    with pytest.raises(ParseError, match="second table"):
        read_ncu(write(tmp_path, details() + raw_page()))


@pytest.mark.parametrize("text", [details(), raw_page(), summary_page()], ids=["details", "raw", "summary"])
def test_a_cut_yields_whole_rows_or_an_error(tmp_path, text):
    whole = rows_of(read_ncu(write(tmp_path, text)).table)
    for _, data in cuts(text.encode(), 10):
        check_damaged(tmp_path, data, whole, allow_changes=False)


@pytest.mark.parametrize("text", [details(), raw_page(), summary_page()], ids=["details", "raw", "summary"])
def test_a_flipped_bit_changes_only_what_nothing_else_repeats(tmp_path, text):
    """Unverifiable: digits within their bounds, metric names, and names and numbers of single-row launches."""
    whole = rows_of(read_ncu(write(tmp_path, text)).table)
    for _, data in flips(text.encode(), 18):
        check_damaged(tmp_path, data, whole, allow_changes=True)


def check_damaged(tmp_path, data, whole, allow_changes):
    try:
        reading = read_ncu(write(tmp_path, data, "damaged.csv"))
    except ParseError:
        return
    rows = rows_of(reading.table)
    changed = {key for key, numbers in rows.items() if whole.get(key) != numbers}
    if not allow_changes:
        assert not changed
    # A cut between two rows of the only launch, or between launches, leaves no trace: the file ends with a whole line.
    is_between_rows = not allow_changes and data.endswith((b"\n", b'"', b'",'))
    if set(whole) - set(rows) and not changed and not is_between_rows:
        assert reading.reasons


@pytest.mark.parametrize(("name", "counts"), SAMPLES.items())
def test_samples_are_read_whole(name, counts):
    reading = read_ncu(sample(f"ncu/{name}"))
    assert reading.is_whole
    assert (reading.facts["launches"], reading.facts["kernels"], len(reading.table)) == counts
    assert reading.coverage_ratio == 1


def test_expected_values_of_the_samples():
    gemm = read_ncu(sample("ncu/details_fp8_gemm_b200_baseunits.log")).table
    assert value(gemm, "Duration") == pytest.approx(406240e-9)
    assert value(gemm, "Elapsed Cycles") == 508757
    assert value(gemm, "SM Frequency") == pytest.approx(1239496049.13)
    assert gemm["grid_size"].unique().tolist() == ["(9, 32, 1)"]
    assert gemm["block_size"].unique().tolist() == ["(384, 1, 1)"]
    climate = read_ncu(sample("ncu/details_climate_a100_scaledunits.csv")).table
    durations = climate[climate["metric"] == "Duration"]["mean"]
    assert durations.tolist() == pytest.approx([56.06e-6, 55.55e-6, 54.08e-6, 23.71e-6, 44.19e-6, 30.86e-3])
    assert durations.sum() == pytest.approx(31.09359e-3)
    assert value(climate, "Memory Throughput", unit="ratio") == pytest.approx(0.2397)
    assert value(climate, "Memory Throughput", unit="byte/s") == pytest.approx(488.17e9)
    raw = read_ncu(sample("ncu/raw_flash_sdpa_b200.csv")).table
    times = raw[raw["metric"] == "gpu__time_duration.sum"]["total"]
    assert times.sum() == pytest.approx(11869152e-9)
    assert (times.iloc[0], times.iloc[-1]) == pytest.approx((740608e-9, 743616e-9))
    assert not raw["metric"].str.contains("dram__bytes|sass_thread_inst").any()
    tiled = read_ncu(sample("ncu/details_gemm_tiled_rtx5070_bom.csv")).table
    assert value(tiled, "gpu__time_duration.sum") == pytest.approx(10195552e-9)
    assert value(tiled, "dram__bytes_op_read.sum") == 53261312
    assert value(tiled, "dram__bytes_op_write.sum") == 3377920
    assert 2 * 2048**3 / value(tiled, "gpu__time_duration.sum") == pytest.approx(1.685e12, rel=1e-3)
    paddle = read_ncu(sample("ncu/details_nvtx_paddle_linear_mixed_stdout.csv")).table
    assert paddle[paddle["metric"] == "gpu__time_duration.sum"]["total"].sum() == pytest.approx(11776e-9)


def test_expected_values_of_the_summaries():
    times = read_ncu(sample("ncu/summary_per_kernel_timing_a100.csv")).table.set_index("name")["total"]
    assert times["kernel_A"] == pytest.approx(7.695296e-3)
    assert times["kernel_B"] == pytest.approx(9.318816e-3)
    table = read_ncu(sample("ncu/summary_per_kernel_metrics_a100.csv")).table
    sectors = table[table["metric"] == "dram__sectors_read.sum"].set_index("name")["total"]
    assert sectors["kernel_A"] * 32 == pytest.approx(2580037632)
    assert sectors["kernel_B"] * 32 == pytest.approx(1287485952)


@pytest.mark.parametrize("name", ["failed_signal.csv", "failed_app_error.csv", "failed_only_prof_lines.csv"])
def test_failed_samples_have_no_kernels(name):
    with pytest.raises(ParseError, match="no kernels"):
        read_ncu(sample(f"ncu/{name}"))


@pytest.mark.parametrize(
    "name",
    ["details_linear_small_a100.csv", "details_gemm_tiled_rtx5070_bom.csv", "summary_per_kernel_timing_a100.csv"],
)
def test_damaged_samples_yield_nothing_wrong(tmp_path, name):
    data = sample(f"ncu/{name}").read_bytes()
    whole = rows_of(read_ncu(sample(f"ncu/{name}")).table)
    for _, damaged in cuts(data, 5):
        check_damaged(tmp_path, damaged, whole, allow_changes=False)
    for _, damaged in flips(data, 7):
        check_damaged(tmp_path, damaged, whole, allow_changes=True)
