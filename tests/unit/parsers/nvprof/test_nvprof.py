"""nvprof: the published samples with their verified values, and small texts in every layout of the tool."""

import math

import pandas as pd
import pytest
from unit.parsers.artefacts import foreign, sample
from unit.parsers.nvprof.totals import add_up_counter
from unit.refusals import refused

from hpcai.core.errors import ParseError
from hpcai.parsers.nvprof.reader import (
    OTHER_TABLES,
    OVERFLOWED,
    SUMMARY,
    TOO_NEW,
    read_nvprof_counters,
    read_nvprof_summary,
    read_nvprof_trace,
)
from hpcai.parsers.reading import NOTHING_READ

READERS = (read_nvprof_summary, read_nvprof_trace, read_nvprof_counters)


def by_name(table: pd.DataFrame, pattern: str) -> pd.DataFrame:
    return table[table["name"].str.contains(pattern, regex=True, case=False)]


class TestSamples:
    def test_metrics_dcgan(self):
        reading = read_nvprof_counters(sample("nvprof/metrics_dcgan_fp16_tegrax1.csv"))
        table = reading.table
        assert len(table) == 105 == reading.complete_records == reading.seen_records
        assert table.groupby("name").size().tolist() == [21] * 5
        totals = {part: add_up_counter(table, f"flop_count_sp{part}") for part in ("", "_add", "_mul", "_fma")}
        assert totals == {"": 17_549_214, "_add": 204_800, "_mul": 619_584, "_fma": 8_362_415}
        assert totals[""] == totals["_add"] + totals["_mul"] + 2 * totals["_fma"]
        assert add_up_counter(table, "flop_count_hp") == 0
        assert add_up_counter(table, "flop_count_dp") == 0
        assert add_up_counter(table, "flop_count_sp_special") == 333_824
        flops = table[table["metric"] == "flop_count_sp"]
        for pattern, expected in {
            "dgrad_engine": 13_232_862,
            "distribution_elementwise": 4_300_800,
            "add_tensor_kernel_v3": 15_552,
            "scalePackedTensor": 0,
            "^_ZN2at6native18elementwise_kernel.*copy_device_to_device": 0,
        }.items():
            assert by_name(flops, pattern)["total"].tolist() == [expected]
        # Only throughputs in MB and GB: nothing in the file shows whether these are powers of ten.
        assert len(reading.reasons) == 1
        assert "10 throughputs are missing" in reading.reasons[0]
        rates = table[table["unit"] == "byte/s"]
        assert rates["mean"].isna().sum() == 10 == len(rates)

    def test_kilobyte_of_a_known_version(self):
        reading = read_nvprof_counters(sample("nvprof/metrics_dcgan_fp16_tegrax1.csv"), kilobyte_bytes=1024)
        assert reading.is_whole
        rate = by_name(reading.table[reading.table["metric"] == "l2_read_throughput"], "add_tensor")["mean"].item()
        assert rate == pytest.approx(658.738633 * 2**20)

    def test_gpu_trace_dcgan(self):
        reading = read_nvprof_trace(sample("nvprof/gputrace_dcgan_fp16_tegrax1.csv"))
        table = reading.table
        assert reading.is_whole
        assert len(table) == 14
        assert reading.facts["kilobyte_bytes"] == 1024
        assert table["duration_s"].sum() * 1e6 == pytest.approx(2_929.840, abs=1e-6)
        for pattern, count, microseconds in (
            ("dgrad_engine", 1, 1_589.223),
            ("distribution", 1, 963.887),
            ("memcpy HtoD", 4, 210.840),
            ("add_tensor", 1, 85.524),
            ("copy_device_to_device", 1, 32.969),
            ("scalePackedTensor", 1, 18.647),
            ("memcpy DtoH", 1, 16.459),
            ("memset", 4, 12.291),
        ):
            rows = by_name(table, pattern)
            assert (len(rows), rows["duration_s"].sum() * 1e6) == (count, pytest.approx(microseconds, abs=1e-6))
        assert by_name(table, "memcpy HtoD")["bytes"].sum() == 416_240
        assert by_name(table, "memcpy DtoH")["bytes"].item() == 20_736

    def test_metrics_jacobi(self):
        reading = read_nvprof_counters(sample("nvprof/metrics_jacobi_k20c.csv"))
        assert reading.is_whole
        assert len(reading.table) == 76
        assert add_up_counter(reading.table, "flop_count_sp") == 8_080_612_320 == 4 * 3 * 673_384_360
        assert add_up_counter(reading.table, "gld_transactions") == 239_976_264
        assert add_up_counter(reading.table, "gst_transactions") == 50_516_136
        assert reading.table.groupby("name")["launches"].first().sum() == 12

    def test_summary_jacobi(self):
        reading = read_nvprof_summary(sample("nvprof/summary_jacobi_k20c_oldformat.csv"))
        table = reading.table
        assert reading.is_whole
        kernels = table[table["kind"] == "kernel"]
        assert kernels["total_s"].sum() * 1e6 == pytest.approx(95_300.707, abs=1e-6)
        assert kernels["calls"].sum() == 12
        for name, microseconds in (("[CUDA memcpy DtoH]", 123_103.609), ("[CUDA memcpy HtoD]", 122_861.335)):
            row = table[table["name"] == name].iloc[0]
            assert (row["calls"], row["kind"]) == (3, "memcpy")
            assert row["total_s"] * 1e6 == pytest.approx(microseconds, abs=1e-6)
        assert len(table) == 6
        assert reading.facts["api_rows"] == 17
        assert not by_name(table, "^cuda").size

    def test_gpu_trace_jacobi(self):
        reading = read_nvprof_trace(sample("nvprof/gputrace_jacobi_k20c_oldformat.csv"))
        table = reading.table
        assert reading.is_whole
        assert len(table) == 18
        assert reading.facts["kilobyte_bytes"] == 1000
        kernels = table[table["kind"] == "kernel"]
        assert kernels["duration_s"].sum() * 1e6 == pytest.approx(95_298.273, abs=1e-6)
        assert set(table[table["kind"] == "memcpy"]["bytes"]) == {269_485_056.0} == {8208 * 8208 * 4.0}
        assert kernels["name"].nunique() == 4
        assert not by_name(kernels, r"\[").size
        assert kernels["bytes"].isna().all()

    def test_all_metrics(self):
        reading = read_nvprof_counters(sample("nvprof/metrics_all_j3d27pt_k20c.csv"))
        table = reading.table
        assert reading.is_whole
        assert len(table) == 124
        assert set(table["launches"]) == {2}
        assert add_up_counter(table, "flop_count_sp") == 72_269_772_288
        assert add_up_counter(table, "flop_count_sp_mul") == 5_162_126_592
        assert add_up_counter(table, "flop_count_sp_fma") == 33_553_822_848
        read, written = (add_up_counter(table, f"dram_{way}_transactions") for way in ("read", "write"))
        assert (read, written) == (88_413_416, 93_051_826)
        assert (read + written) * 32 == 5_806_887_744
        values = table.set_index("metric")
        assert values.loc["dram_utilization", ["unit", "mean"]].tolist() == ["level", 3]
        assert values.loc["sm_efficiency", "mean"] == pytest.approx(0.97188709)
        assert math.isnan(values.loc["sm_efficiency", "total"])
        assert reading.facts["kilobyte_bytes"] == 1000
        assert values.loc["dram_read_throughput", "mean"] == pytest.approx(24.389612e9)

    def test_events_and_metrics(self):
        reading = read_nvprof_counters(sample("nvprof/events_and_metrics_cheby_k40c.csv"))
        table = reading.table
        assert reading.is_whole
        assert table["source"].value_counts().to_dict() == {"event": 141, "metric": 124}
        assert set(table["launches"]) == {4}
        totals = [add_up_counter(table, f"flop_count_sp{part}") for part in ("", "_add", "_mul", "_fma")]
        assert totals == [20_693_556_000, 13_265_100_000, 1_061_208_000, 3_183_624_000]
        sectors = [add_up_counter(table, f"fb_subp{part}_read_sectors", "event") for part in (0, 1)]
        assert sectors == [145_963_280, 145_953_388]
        assert add_up_counter(table, "dram_read_transactions") == 291_916_668 == sum(sectors)
        both = table[table["metric"] == "inst_executed"]
        assert sorted(both["source"]) == ["event", "metric"]
        assert add_up_counter(table, "inst_executed") == both[both["source"] == "metric"]["total"].item()
        # 3.161133 KB/s is a whole number of bytes only with 1024.
        assert reading.facts["kilobyte_bytes"] == 1024

    def test_metrics_transpose(self):
        reading = read_nvprof_counters(sample("nvprof/metrics_transpose_v100s_noprologue.csv"))
        assert reading.is_whole
        assert len(reading.table) == 9
        assert set(reading.table["launches"]) == {101}
        counters = ("gld_transactions", "gst_transactions", "dram_read_transactions", "dram_write_transactions")
        expected = [13_238_272, 52_953_088, 13_791_449, 13_716_911]
        assert [add_up_counter(reading.table, counter) for counter in counters] == expected

    def test_summary_transpose(self):
        reading = read_nvprof_summary(sample("nvprof/summary_transpose_v100s_noprologue.csv"))
        table = reading.table
        assert reading.is_whole
        assert [f"{time * 1e6:.3f}" for time in table["total_s"]] == ["2670.947", "2645.669", "757.688"]
        assert table["calls"].tolist() == [101, 2, 1]
        assert table["total_s"].sum() * 1e6 == pytest.approx(6_074.304, abs=1e-6)
        assert table["min_s"].iloc[0] == pytest.approx(25.983e-6)
        assert table["mean_s"].iloc[0] == pytest.approx(26.445e-6)

    def test_summary_deepspeech(self):
        reading = read_nvprof_summary(sample("nvprof/summary_deepspeech_fp16_p100.txt"))
        table = reading.table
        assert reading.is_whole
        assert reading.facts["is_text_mode"]
        assert (len(table), table["calls"].sum()) == (103, 975_148)
        assert table["total_s"].sum() == pytest.approx(90.5695, abs=5e-5)
        gemm = by_name(table, "gemm")
        assert (len(gemm), gemm["calls"].sum()) == (11, 203_270)
        assert gemm["total_s"].sum() == pytest.approx(74.0756, abs=5e-5)
        largest = table[table["name"] == "maxwell_fp16_sgemm_fp16_128x32_nn"].iloc[0]
        assert (largest["total_s"], largest["calls"]) == (56.7794, 186_316)
        copies = by_name(table, r"\[CUDA mem")
        assert copies["calls"].sum() == 554_996
        assert copies["total_s"].sum() == pytest.approx(4.59587, abs=5e-6)
        # The repeat of nine copies in an NVTX range is not added to the copies between devices.
        assert table[table["name"] == "[CUDA memcpy DtoD]"]["calls"].item() == 67_043
        assert reading.facts["nvtx_rows"] > 0

    def test_metrics_deepspeech(self):
        reading = read_nvprof_counters(sample("nvprof/metrics_deepspeech_p100.txt"))
        table = reading.table
        assert reading.is_whole
        assert (len(table), table["name"].nunique(), table["metric"].nunique()) == (132, 33, 4)
        assert add_up_counter(table, "cf_executed") == 1_129_524_427
        assert table.groupby("name")["launches"].first().sum() == 10_459
        assert set(table["device"]) == {"Tesla P100-PCIE-16GB (0)"}

    @pytest.mark.parametrize("name", ["failed_no_events_or_metrics.txt", "failed_no_kernels.txt"])
    @pytest.mark.parametrize("read", READERS)
    def test_recorded_nothing(self, name, read):
        with pytest.raises(ParseError, match="nvprof recorded no kernels"):
            read(sample(f"nvprof/{name}"))


NEW_SUMMARY = """\
==7== NVPROF is profiling process 7, command: ./train
step 1
Done!==7== Profiling application: ./train
==7== Profiling result:
"Type","Time(%)","Time","Calls","Avg","Min","Max","Name"
,%,ms,,us,us,us,
"GPU activities",75.000000,3.000000,3,1000.000000,999.000000,1001.000000,"void f<int=1, float>(int, float*)"
==7== Warning: something between the rows
"GPU activities",25.000000,1.000000,1,1.000000e+03,1000.000000,1000.000000,"[CUDA memset]"
"API calls",100.000000,9.000000,4,2250.000000,1000.000000,3000.000000,"cudaLaunchKernel"
"OpenACC (excl)",100.000000,9.000000,4,2250.000000,1000.000000,3000.000000,"acc_wait"

==7== NVTX result:
==7==   Thread "<unnamed>" (id = 1)
==7==     Domain "d"
==7==       Range "step"
"Type","Time(%)","Time","Calls","Avg","Min","Max","Name"
,%,ms,,us,us,us,
"Range",100.000000,4.000000,1,4000.000000,4000.000000,4000.000000,"step"
"GPU activities",100.000000,1.000000,1,1000.000000,1000.000000,1000.000000,"[CUDA memset]"
No API activities were profiled in this range.
"""
OLD_TEXT_SUMMARY = """\
==7== Profiling result:
Time(%)      Time     Calls       Avg       Min       Max  Name
 75.00%  3.0000ms         3  1.0000ms  999.00us  1.0010ms  g(float*, int)
 25.00%  1.0000ms         1  1.0000ms  1.0000ms  1.0000ms  [CUDA memcpy HtoD]

==7== API calls:
Time(%)      Time     Calls       Avg       Min       Max  Name
100.00%  9.0000ms         4  2.2500ms  1.0000ms  3.0000ms  cudaLaunch
"""
TWO_DEVICES = """\
==7== Profiling result:

==7== Device "K40 (0)"
"Time(%)","Time","Calls","Avg","Min","Max","Name"
%,us,,us,us,us,
100.000000,4.000000,2,2.000000,1.000000,3.000000,"k"

==7== Device "K40 (1)"
"Time(%)","Time","Calls","Avg","Min","Max","Name"
%,us,,us,us,us,
100.000000,6.000000,2,3.000000,1.000000,5.000000,"k"

==7== API calls:
"Time(%)","Time","Calls","Avg","Min","Max","Name"
%,us,,us,us,us,
100.000000,6.000000,2,3.000000,1.000000,5.000000,"cudaFree"
"""
TEXT_TRACE = """\
==7== Profiling result:
   Start  Duration            Grid Size      Block Size     Regs*    SSMem*    DSMem*      Size  Throughput  SrcMemType  DstMemType           Device   Context    Stream  Name
347.74ms  169.24us                    -               -         -         -         -  256.00KB  1.4426GB/s    Pageable      Device  GeForce GT 9999         1         7  [CUDA memcpy HtoD]
347.92ms  17.506us            (128 1 1)       (256 1 1)        10  4.0000KB        0B         -           -           -           -  GeForce GT 9999         1         7  sum(int*, int*) [114]
348.00ms         -                    -               -         -         -         -         -           -           -           -                -         -         -  [Unified Memory CPU page faults]

Regs: Number of registers used per CUDA thread.
"""  # noqa: E501
SAME_PREFIX_TRACE = """\
"Start","Duration","Grid X","Size","Throughput","Device","Context","Stream","Name"
ms,ms,,MB,MB/s,,,,
1.000000,100.000000,,512.000000,5120.000000,"K40 (0)","1","7","[CUDA memcpy HtoD]"
"""
TEXT_COUNTERS = """\
==7== Profiling result:
==7== Event result:
Invocations                                Event Name         Min         Max         Avg       Total
Device "K40 (0)"
    Kernel: f(int)
          2                            warps_launched          10          20          15          30

==7== Metric result:
Invocations                               Metric Name                        Metric Description         Min         Max         Avg
Device "K40 (0)"
    Kernel: f(int)
          2                            warps_launched                                     Warps          10          20          15
          2                          dram_utilization                        Memory Utilization     Low (1)     Mid (4)     Low (2)
          2                            inst_executed                     Instructions Executed  <OVERFLOW>  <OVERFLOW>  <OVERFLOW>
          2                           dram_read_bytes                                Bytes read         100         300         200
"""  # noqa: E501


def write(tmp_path, text):
    path = tmp_path / "nvprof.log"
    path.write_text(text)
    return path


class TestLayouts:
    def test_types_sections_and_messages(self, tmp_path):
        reading = read_nvprof_summary(write(tmp_path, NEW_SUMMARY))
        assert reading.is_whole
        assert reading.table["calls"].tolist() == [3, 1]
        assert reading.table["total_s"].tolist() == pytest.approx([0.003, 0.001])
        assert reading.table["kind"].tolist() == ["kernel", "memset"]
        assert reading.facts["command"] == "./train"
        assert {key: reading.facts[f"{key}_rows"] for key in ("api", "openacc", "nvtx")} == {
            "api": 1,
            "openacc": 1,
            "nvtx": 2,
        }

    def test_nvtx_without_its_title(self, tmp_path):
        cleaned = "".join(line for line in NEW_SUMMARY.splitlines(keepends=True) if "==7==" not in line)
        table = read_nvprof_summary(write(tmp_path, cleaned)).table
        assert table["calls"].tolist() == [3, 1]

    @pytest.mark.parametrize("title", ["==7== API calls:\n", "==7== API camls:\n", ""])
    def test_old_text_layout(self, tmp_path, title):
        reading = read_nvprof_summary(write(tmp_path, OLD_TEXT_SUMMARY.replace("==7== API calls:\n", title)))
        assert reading.table["name"].tolist() == ["g(float*, int)", "[CUDA memcpy HtoD]"]
        assert reading.facts["api_rows"] == 1

    def test_old_layout_with_nothing_but_calls(self, tmp_path):
        text = OLD_TEXT_SUMMARY.split("\n")
        text[1:4] = ["No kernels were profiled."]
        with pytest.raises(ParseError, match="nvprof recorded no kernels"):
            read_nvprof_summary(write(tmp_path, "\n".join(text)))

    def test_each_device(self, tmp_path):
        table = read_nvprof_summary(write(tmp_path, TWO_DEVICES)).table
        assert table["device"].tolist() == ["K40 (0)", "K40 (1)"]
        assert table["total_s"].tolist() == pytest.approx([4e-6, 6e-6])

    def test_processes_are_added_by_name(self, tmp_path):
        second = NEW_SUMMARY.replace("==7==", "==8==")
        reading = read_nvprof_summary(write(tmp_path, NEW_SUMMARY + second))
        assert reading.is_whole
        assert reading.facts["processes"] == 2
        assert reading.table["calls"].tolist() == [6, 2]
        assert reading.table["mean_s"].tolist() == pytest.approx([0.001, 0.001])

    def test_text_trace(self, tmp_path):
        reading = read_nvprof_trace(write(tmp_path, TEXT_TRACE))
        assert reading.is_whole
        assert reading.facts["unified_memory_rows"] == 1
        assert reading.table["name"].tolist() == ["[CUDA memcpy HtoD]", "sum(int*, int*)"]
        assert reading.table["bytes"].iloc[0] == 256 * 1024
        assert reading.table["start_s"].tolist() == pytest.approx([0.34774, 0.34792])

    def test_sizes_of_an_unknown_kilobyte(self, tmp_path):
        path = write(tmp_path, SAME_PREFIX_TRACE)
        reading = read_nvprof_trace(path)
        assert math.isnan(reading.table["bytes"].iloc[0])
        assert any("no size is read" in reason for reason in reading.reasons)
        told = read_nvprof_trace(path, kilobyte_bytes=1000)
        assert told.is_whole
        assert told.table["bytes"].iloc[0] == 512_000_000
        newer = SAME_PREFIX_TRACE.replace('"Throughput"', '"Throughput","SrcMemType"').replace("B/s", "B/s,")
        newer = newer.replace("5120.000000", '5120.000000,"Device"')
        assert read_nvprof_trace(write(tmp_path, newer)).table["bytes"].iloc[0] == 512 * 2**20

    def test_text_counters(self, tmp_path):
        reading = read_nvprof_counters(write(tmp_path, TEXT_COUNTERS))
        table = reading.table
        assert table["source"].tolist() == ["event"] + ["metric"] * 4
        assert add_up_counter(table, "warps_launched", "event") == 30
        assert add_up_counter(table, "dram_read_bytes") == 400
        assert math.isnan(add_up_counter(table, "inst_executed"))
        assert math.isnan(add_up_counter(table, "not_collected"))
        assert table["unit"].tolist() == ["", "", "level", "", "byte"]
        assert reading.reasons == (OVERFLOWED(counters=1),)

    def test_wrong_table(self, tmp_path):
        with refused(
            ParseError, NOTHING_READ, found=OTHER_TABLES(kinds="a table of events and a table of metrics"), tool=SUMMARY
        ):
            read_nvprof_summary(write(tmp_path, TEXT_COUNTERS))

    def test_device_too_new(self, tmp_path):
        text = "======== Warning: nvprof is not supported on devices with compute capability 8.0 and higher.\n"
        with refused(ParseError, NOTHING_READ, advice=TOO_NEW()):
            read_nvprof_summary(write(tmp_path, text))

    @pytest.mark.parametrize("read", READERS)
    def test_foreign(self, tmp_path, read):
        for path in foreign(tmp_path).values():
            with pytest.raises(ParseError, match="expected nvprof"):
                read(path)
        with pytest.raises(ParseError, match="expected nvprof"):
            read(tmp_path / "missing.csv")
