"""Golden values C-01 to C-12 and every row of the table of inconsistencies (performance_models.md, C.2 and C.3).

Inputs come from the files in `config/published/`, results from the functions that score our own runs.
"""

from functools import cache
from pathlib import Path

import pandas as pd
import pytest
import yaml

from hpcai.config.published import Published, PublishedResult, load_published
from hpcai.core.units import to_si
from hpcai.metrics.roofline.declared import declared_ceilings, declared_roofline, one_direction
from hpcai.metrics.roofline.model import attainable_rate, communication_intensity, ridge_point
from hpcai.metrics.scaling.laws import parallel_efficiency
from hpcai.metrics.scores.declared import IMPLIED_QUALITY, declared_rate, declared_scores
from hpcai.metrics.scores.declared_checks import (
    check_declared,
    coefficient_gain,
    complete_shares,
    declared_breakdowns,
)
from hpcai.metrics.scores.ranking import rank_results
from hpcai.metrics.scores.result_scores import refuse_mixed_exponents
from hpcai.metrics.scores.vflops import compute_vflops, implied_quality, quality_coefficient, training_work
from hpcai.rules.table import rules_of

ROOT = Path(__file__).parents[3]


@cache
def load(name: str) -> Published:
    return load_published(ROOT / "config" / "published" / f"{name}.yaml")


@pytest.fixture(scope="module")
def paper() -> Published:
    return load("hpc_ai500_v2")


@pytest.fixture(scope="module")
def public_list() -> Published:
    return load("hpc_ai500_ranking_2020")


@pytest.fixture(scope="module")
def checks(paper: Published) -> pd.DataFrame:
    return check_declared(paper)


def check(checks: pd.DataFrame, result: str, quantity: str, against: str = "") -> pd.Series:
    own = checks[(checks["result"] == result) & (checks["quantity"] == quantity) & (checks["against"] == against)]
    assert len(own), f"{result}, {quantity}: no row"
    return own.iloc[0]


def printed_value(result: PublishedResult, quantity: str) -> float:
    found = [each.value for each in result.printed if each.quantity == quantity and each.value is not None]
    return found[0]


def rate(published: Published, name: str) -> float:
    return declared_rate(published.result(name), published).flop_per_s


# ---- C.2


def test_c_01_implied_quality_of_939_and_642(paper):
    result, workload = paper.result("ic_mixed_64_valid"), paper.workloads["image_classification"]
    flops, vflops, target = result.rate_flop_per_s, result.vflops_flop_per_s, workload.quality_target
    assert vflops / flops == pytest.approx(0.683706, abs=5e-7)
    assert implied_quality(flops, vflops, target, workload.exponent) == pytest.approx(0.70713, abs=5e-6)
    assert implied_quality(flops, vflops, target, 10) == pytest.approx(0.73453, abs=5e-6)
    half = 0.5e12
    assert implied_quality(flops + half, vflops - half, target, 5) == pytest.approx(0.70694, abs=5e-6)
    assert implied_quality(flops - half, vflops + half, target, 5) == pytest.approx(0.70731, abs=5e-6)
    one_point_below = printed_value(result, "implied_quality")
    assert one_point_below == pytest.approx(target - 0.01)
    assert compute_vflops(flops, one_point_below, target, 5) == pytest.approx(879e12, rel=1e-3)


def test_c_02_coefficients(paper, checks):
    assert check(checks, "ic_quality_0_7634", "quality_coefficient_ratio")["computed"] == pytest.approx(
        1.002624, abs=5e-7
    )
    assert check(checks, "ic_quality_0_6148", "quality_coefficient_ratio")["computed"] == pytest.approx(
        0.339662, abs=5e-7
    )
    assert check(checks, "ewa_quality_0_33", "quality_coefficient_ratio")["computed"] == pytest.approx(
        0.555212, abs=5e-7
    )
    assert paper.workloads["image_classification"].exponent == 5
    assert paper.workloads["extreme_weather"].exponent == 10


def test_c_03_gains_of_table_8(paper, checks):
    small, large = paper.gains
    assert check(checks, small.name, "coefficient_gain_ratio")["computed"] == pytest.approx(1.0298, abs=5e-5)
    assert check(checks, small.name, "coefficient_gain_ratio")["agrees"]
    row = check(checks, large.name, "coefficient_gain_ratio")
    assert row["computed"] == pytest.approx(1.0938, abs=5e-5)
    assert not row["agrees"]
    rounded_to_printed = row["printed"] - 0.005
    # Above this quality the gain would round to less than what is printed.
    largest_base = large.gain / (rounded_to_printed ** (1 / 5) - 1)
    assert largest_base == pytest.approx(0.75341, abs=5e-6)
    assert coefficient_gain(largest_base, large.gain, 5) == pytest.approx(rounded_to_printed)
    # Read as relative gains they would give less than what is printed.
    assert coefficient_gain(1.0, small.gain, 5) == pytest.approx(1.0227, abs=5e-5)
    assert coefficient_gain(1.0, large.gain, 5) == pytest.approx(1.0709, abs=5e-5)


def test_c_04_work_of_a_sample(checks):
    ewa = check(checks, "extreme_weather", "profiled_flop_per_sample")
    assert ewa["computed"] == pytest.approx(691.32e9, rel=1e-9)
    assert ewa["agrees"]
    images = check(checks, "image_classification", "profiled_flop_per_sample")
    assert images["computed"] == pytest.approx(224.77e9, rel=1e-5)
    assert images["printed"] == 23e9
    assert not images["agrees"]


def test_c_05_rates_of_table_11(paper, checks):
    expected = {"ic_fp32_8": (60.352e12, 58e12, 0.483), "ic_mixed_8": (131.882e12, 126e12, 1.05),
                "ewa_fp32_8": (31.786e12, 31e12, 0.258)}  # fmt: skip
    fp32_peak = paper.machines["v100_cluster"].peaks["fp32"].rate_flop_per_s * 8
    assert fp32_peak == 120e12
    for name, (computed, printed, ratio) in expected.items():
        row = check(checks, name, "rate_flop_per_s")
        assert row["computed"] == pytest.approx(computed, rel=1e-9)
        assert row["printed"] == printed
        assert row["agrees"]
        assert row["tolerance"] == "5 %"
        assert printed / fp32_peak == pytest.approx(ratio, abs=5e-4)
        assert check(checks, name, "fp32_peak_ratio")["agrees"]


def test_c_06_ratio_to_the_mixed_peaks(paper):
    machine = paper.machines["v100_cluster"]
    others = [peak.rate_flop_per_s for peak in machine.other_peaks if peak.precision == "fp16"]
    peaks = [8 * peak for peak in (machine.peaks["fp16"].rate_flop_per_s, *others)]
    assert peaks == [960e12, 1000e12, 1040e12]
    printed = printed_value(paper.result("ic_mixed_8"), "rate_flop_per_s")
    assert [printed / peak for peak in peaks] == pytest.approx([0.131, 0.126, 0.121], abs=5e-4)


def test_c_07_communication_operation_intensity(paper, checks):
    ewa, images = paper.workloads["extreme_weather"], paper.workloads["image_classification"]
    assert ewa.flop_per_step / ewa.parameters / 1e3 == pytest.approx(16.854, abs=5e-4)
    assert images.flop_per_step / images.parameters / 1e3 == pytest.approx(117.76, rel=1e-9)
    assert images.flop_per_step / images.samples_per_step == pytest.approx(23e9, rel=1e-9)
    for workload, expected in ((ewa, 4213.4), (images, 29440)):
        assert communication_intensity(workload.flop_per_step, 4 * workload.parameters) == pytest.approx(
            expected, rel=1e-5
        )
    assert check(checks, "extreme_weather", "flop_per_byte")["agrees"]
    assert check(checks, "image_classification", "flop_per_byte")["agrees"]


def test_c_08_phases_of_the_exchange(paper, checks):
    weather, images = (each for each in paper.breakdowns if each.name.startswith("timeline"))
    assert [each.total_s for each in (weather, images)] == pytest.approx([191.940e-3, 141.735e-3], rel=1e-9)
    assert check(checks, weather.name, "negotiation_ratio")["computed"] == pytest.approx(0.2857, abs=5e-5)
    assert images.shares["NEGOTIATE_ALLREDUCE"] == pytest.approx(0.1611, abs=5e-5)
    assert check(checks, weather.name, "wait_s")["computed"] == pytest.approx(4.707e-3, rel=1e-9)
    assert check(checks, images.name, "wait_s")["computed"] == pytest.approx(112.454e-3, rel=1e-9)
    gain = check(checks, weather.name, "negotiation_gain_ratio", images.name)
    assert gain["computed"] == pytest.approx(54.837 / 22.836, rel=1e-9)


def test_c_09_what_figure_10_leaves_out(paper, checks):
    rows = checks[checks["quantity"] == "other_ratio"]
    assert rows["computed"].tolist() == pytest.approx([0.0148, 0.1006, 0.0427])
    assert rows["agrees"].all()
    sums = [sum(each.part_shares.values()) for each in paper.breakdowns if each.part_shares]
    assert sums == pytest.approx([0.9852, 0.8994, 0.9573])
    assert check(checks, "kernels_ewa_fp32", "exchange_ratio")["computed"] == pytest.approx(0.5062)


def test_parts_of_published_breakdowns_are_rows(paper):
    parts = declared_breakdowns(paper).set_index(["breakdown", "part"])
    timeline, kernels = (next(each for each in paper.breakdowns if each.name.startswith(kind)) for kind in ("t", "k"))
    queue = parts.loc[(timeline.title, "QUEUING")]
    assert (queue["time_s"], queue["share_ratio"]) == pytest.approx((65.863e-3, 65.863 / 191.940))
    convolution = parts.loc[(kernels.title, "convolution")]
    assert convolution[["share_ratio", "instructions_per_cycle", "dram_utilisation"]].tolist() == [0.3502, 3.17, 3.34]
    assert convolution["device_busy_ratio"] == 0.939
    assert pd.isna(parts.loc[(kernels.title, "memcpy"), "instructions_per_cycle"])


def test_figure_12_gives_the_rates_of_section_8_4(paper, checks):
    for name, computed in (("ic_fp32_64_parts", 342.8e12), ("ic_mixed_64_parts", 706.9e12)):
        row = check(checks, name, "rate_flop_per_s")
        assert row["computed"] == pytest.approx(computed, rel=1e-4)
        assert row["agrees"]
    assert check(checks, "ic_fp32_64_compressed", "gain_ratio", "ic_fp32_64")["computed"] == pytest.approx(1.2)
    assert check(checks, "ic_mixed_64_valid", "gain_ratio", "ic_mixed_64")["computed"] == pytest.approx(939 / 718)
    assert rate(paper, "ewa_fp32_32_compressed") == pytest.approx(0.37 * 4 * 25.99e12 * 1.6)


def test_c_10_gains_of_compression(paper, checks):
    gain = check(checks, "ewa_fp32_16_compressed", "gain_ratio", "ewa_fp32_16")["computed"]
    assert gain == pytest.approx(1.4225, abs=5e-5)
    assert gain <= 2
    assert rate(paper, "ewa_fp32_8_compressed") == pytest.approx(31.19e12, abs=5e9)
    derived = paper.result("ewa_fp32_64_parts").derived
    assert rate(paper, "ewa_fp32_64_parts") / derived.gain_ratio == pytest.approx(74.85e12, abs=5e9)
    assert rate(paper, "ewa_fp32_64_parts") == pytest.approx(112.3e12, abs=5e10)
    assert check(checks, "ewa_fp32_64_parts", "rate_flop_per_s")["printed"] == 109e12
    assert rate(paper, "ewa_fp32_64_compressed") == 109e12


def test_c_11_work_of_90_epochs(public_list):
    workload = public_list.workloads["image_classification"]
    work = training_work(workload.train_samples, workload.epochs, workload.flop_per_sample)
    assert work == pytest.approx(2.6496e18, rel=1e-12)
    assert rate(public_list, "fujitsu") == pytest.approx(36.80e15, rel=1e-9)
    assert rate(public_list, "intel") == pytest.approx(1.577e15, abs=5e11)


def test_c_12_ridge_points(paper):
    machine = paper.machines["v100_cluster"]
    fp32, mixed = (peak.rate_flop_per_s for peak in (machine.peaks["fp32"], machine.other_peaks[1]))
    assert ridge_point(8 * mixed, machine.intra_node.bandwidth_bytes_per_s) == pytest.approx(3466.7, abs=0.05)
    assert ridge_point(8 * fp32, machine.intra_node.bandwidth_bytes_per_s) == pytest.approx(400, rel=1e-9)
    assert ridge_point(64 * fp32, machine.network.measured_bytes_per_s) == pytest.approx(8e5, rel=1e-9)
    assert ridge_point(64 * mixed, machine.network.measured_bytes_per_s) == pytest.approx(6.933e6, rel=1e-4)


# ---- The public ranking list of July 2020


def test_list_of_july_2020_is_reproduced_with_n_10(public_list):
    ratios = check_declared(public_list).query("quantity == 'vflops_flop_per_s'").set_index("result")["ratio"]
    assert len(ratios) == 9
    others = ratios.drop("facebook")
    assert ((others - 1).abs() <= 0.016).all()
    assert ratios["facebook"] == pytest.approx(1.051, abs=5e-4)


def test_list_of_july_2020_is_not_reproduced_with_n_5(public_list):
    workload = public_list.workloads["image_classification"]
    ratios = {
        result.name: compute_vflops(rate(public_list, result.name), result.quality, workload.quality_target, 5)
        / result.vflops_flop_per_s
        for result in public_list.results
    }
    assert max(ratios.values()) == pytest.approx(1.11, abs=0.005)
    assert sum(abs(ratio - 1) <= 0.016 for ratio in ratios.values()) < 8
    assert workload.exponent == 10
    assert "n = 10" in public_list.note


def test_published_points_lie_below_their_roofs(paper):
    points = declared_roofline(paper).set_index("result")
    assert set(points["status"]) == {"drawn"}
    assert (points["rate_flop_per_s"] <= points["roof_flop_per_s"]).all()
    assert points.loc["ic_fp32_64", "communication_roof_flop_per_s"] == pytest.approx(1292e12, rel=1e-3)
    assert points.loc["ic_fp32_64", "bound"] == "computation"
    assert points.loc["ewa_fp32_16", "bound"] == "communication"


# ---- C.3, a test for each row


def test_c3_vflops_exponent(paper, public_list):
    scores = pd.concat([declared_scores(paper), declared_scores(public_list)], ignore_index=True)
    of_images = scores[scores["workload"] == "image_classification"]
    assert set(of_images["exponent"]) == {5.0, 10.0}
    with pytest.raises(ValueError, match="different exponents are not compared"):
        refuse_mixed_exponents(of_images)
    by_vflops = rank_results(scores).query("measure == 'VFLOPS'")
    assert sorted(by_vflops.groupby("list")["exponent"].unique().map(list)) == [[5.0], [10.0]]


def test_c3_642_tvflops_is_a_check_and_no_accuracy(paper, checks):
    row = declared_scores(paper).set_index("result").loc["ic_mixed_64_valid"]
    assert row["vflops_flop_per_s"] == 642e12
    assert pd.isna(row["quality"])
    assert IMPLIED_QUALITY(quality=0.7071, n=5) in row["reason"]
    own = checks[checks["quantity"] == "implied_quality"]
    assert own["printed"].tolist() == [0.753, 0.763]
    assert not own[["agrees", "expected"]].any(axis=None)


def test_c3_table_10(paper, checks):
    row = check(checks, "image_classification", "profiled_flop_per_sample")
    assert row["ratio"] == pytest.approx(9.8, abs=0.05)
    assert "22.477" in row["note"]
    workload = paper.workloads["image_classification"]
    alternative = workload.profiled_flop / 10 / workload.profiled_samples
    assert alternative == pytest.approx(22.477e9, rel=1e-4)
    assert alternative / workload.flop_per_sample - 1 == pytest.approx(-0.023, abs=5e-4)
    assert workload.flop_per_sample == 23e9


def test_c3_table_11(paper):
    for name, flop_per_image in (("ic_fp32_8", 22.1e9), ("ic_mixed_8", 22.0e9)):
        result = paper.result(name)
        printed = printed_value(result, "rate_flop_per_s")
        assert printed / result.train_rate_samples_per_s == pytest.approx(flop_per_image, rel=3e-3)
        assert abs(rate(paper, name) / printed - 1) <= 0.05
    for name, needed in (("ic_fp32_64", 60.7e12), ("ic_mixed_64", 134e12)):
        efficiency = printed_value(paper.result(name), "efficiency_ratio")
        assert rate(paper, name) / (8 * efficiency) == pytest.approx(needed, rel=1e-3)


def test_c3_speed_up_of_mixed_precision(paper, checks):
    assert check(checks, "ic_mixed_8", "gain_ratio", "ic_fp32_8")["agrees"]
    mixed, single = paper.result("ic_mixed_8"), paper.result("ic_fp32_8")
    assert mixed.train_rate_samples_per_s / single.train_rate_samples_per_s == pytest.approx(2.185, abs=5e-4)
    printed = [printed_value(each, "rate_flop_per_s") for each in (mixed, single)]
    assert printed[0] / printed[1] == pytest.approx(2.172, abs=5e-4)


def test_c3_parallel_efficiency_names_its_baseline(paper, checks):
    row = check(checks, "ic_fp32_64", "efficiency_ratio", "ic_fp32_8")
    assert row["computed"] == pytest.approx(0.715, abs=5e-4)
    assert row["agrees"]
    printed_base = printed_value(paper.result("ic_fp32_8"), "rate_flop_per_s")
    assert parallel_efficiency(rate(paper, "ic_fp32_64"), 64, printed_base, 8) == pytest.approx(0.744, abs=5e-4)
    mixed = check(checks, "ic_mixed_64", "efficiency_ratio", "ic_mixed_8")
    assert mixed["computed"] == pytest.approx(0.681, abs=6e-4)
    assert mixed["printed"] == 0.67
    assert mixed["agrees"]


def test_c3_baseline_carries_the_compression_flag(paper, checks):
    assert paper.result("ewa_fp32_8").compression is None
    refused = check(checks, "ewa_fp32_16", "efficiency_ratio", "ewa_fp32_8")
    assert pd.isna(refused["computed"])
    assert "0.42, and the compression" in refused["note"]
    printed_base = printed_value(paper.result("ewa_fp32_8"), "rate_flop_per_s")
    assert parallel_efficiency(rate(paper, "ewa_fp32_16"), 16, printed_base, 8) == pytest.approx(0.42, abs=5e-3)
    uncompressed = check(checks, "ewa_fp32_16", "efficiency_ratio", "ewa_fp32_8_uncompressed")
    assert uncompressed["computed"] == pytest.approx(0.50, abs=5e-3)
    assert check(checks, "ewa_fp32_8_compressed", "rate_flop_per_s")["agrees"]


def test_c3_compression_gains_between_one_and_two(checks):
    gains = checks[(checks["result"] == "ewa_fp32_16_compressed") & (checks["quantity"] == "gain_ratio")]
    assert gains["tolerance"].tolist() == ["1 %", "1 to 2", "0.05"]
    assert gains["agrees"].all()
    assert (gains["computed"] < 2).all()


def test_c3_peak_is_declared_per_device(paper):
    machine = paper.machines["v100_cluster"]
    assert machine.peaks["fp16"].rate_flop_per_s == 120e12
    assert {peak.rate_flop_per_s for peak in machine.other_peaks} == {125e12, 130e12, 15.7e12}
    assert all(peak.source for peak in (*machine.peaks.values(), *machine.other_peaks))
    assert machine.memory_bandwidth_bytes_per_s == 900e9
    assert to_si("1107 MHz", "Hz") * 2 * 4096 / 8 == pytest.approx(1134e9, rel=1e-3)


def test_c3_ratio_over_the_fp32_peak_has_another_name(checks):
    assert check(checks, "ic_mixed_8", "fp32_peak_ratio")["computed"] > 1
    own = check(checks, "ic_mixed_8", "peak_ratio")
    assert own["computed"] < 0.2
    assert own["agrees"]


def test_c3_ceilings_above_their_peak_are_refused(paper, checks):
    ceilings = declared_ceilings(paper).query("ranks == 64 and kind == 'kernel'")
    values = ceilings.set_index("value")["status"]
    assert [values[value] for value in (5088e12, 1408e12, 920e12, 896e12)] == ["ceiling"] * 4
    assert values[976e12] == "refused"
    reason = ceilings.set_index("value").loc[976e12, "reason"]
    assert "1.02 times" in reason
    assert "960 TFLOP/s" in reason
    printed = checks[checks["quantity"] == "ceiling_flop_per_s"]
    assert printed["printed"].tolist() == [5091e12, 2376e12, 920e12, 976e12]
    assert printed["agrees"].tolist() == [True, False, True, False]


def test_c3_links(paper):
    machine = paper.machines["v100_cluster"]
    assert machine.network.bandwidth_bytes_per_s == to_si("10 Gbit/s", "byte/s") == 1.25e9
    assert one_direction(machine.network) == 1.2e9
    assert machine.intra_node.directions == 2
    assert one_direction(machine.intra_node) == 150e9


def test_c3_each_node_has_a_link(paper, checks):
    assert check(checks, "ic_fp32_64", "single_link_roof_flop_per_s")["computed"] == pytest.approx(161e12, rel=5e-3)
    point = declared_roofline(paper).set_index("result").loc["ic_fp32_64"]
    one_link = attainable_rate(point["compute_roof_flop_per_s"], point["intensity_flop_per_byte"], 1.2e9)
    assert one_link < point["rate_flop_per_s"] < point["communication_roof_flop_per_s"]


def test_c3_table_5_keeps_work_batch_and_parameters_apart(paper):
    for name, step, batch, parameters in (
        ("image_classification", 2944e9, 128, 25e6),
        ("extreme_weather", 691e9, 1, 41e6),
    ):
        workload = paper.workloads[name]
        assert (workload.flop_per_step, workload.samples_per_step, workload.parameters) == (step, batch, parameters)


def test_c3_table_12(checks):
    assert check(checks, "timeline_ewa", "negotiation_ratio")["agrees"]
    assert not check(checks, "timeline_ewa", "wait_s")["agrees"]
    assert check(checks, "timeline_ic", "wait_s")["agrees"]
    times = check(checks, "timeline_ewa", "negotiation_gain_ratio", "timeline_ic")
    shares = check(checks, "timeline_ewa", "negotiation_share_gain_ratio", "timeline_ic")
    assert times["computed"] == pytest.approx(2.40, abs=5e-3)
    assert shares["computed"] == pytest.approx(1.77, abs=5e-3)
    assert (times["agrees"], shares["agrees"]) == (True, False)


def test_c3_figure_10_is_completed_to_100_percent(paper):
    columns = [complete_shares(each.shares) for each in paper.breakdowns if each.part_shares]
    assert [each["other"] for each in columns] == pytest.approx([0.0148, 0.1006, 0.0427])
    assert [sum(each.values()) for each in columns] == pytest.approx([1.0, 1.0, 1.0])


def test_c3_figure_1_gap(public_list):
    row = check(check_declared(public_list), "fujitsu", "gain_ratio", "intel")
    assert row["computed"] == pytest.approx(23, abs=0.5)
    assert row["printed"] == 50
    assert not row["expected"]


def test_c3_other_image_size_and_runs(paper):
    weather = yaml.safe_load((ROOT / "config" / "benchmarks" / "extreme_weather.yaml").read_text())
    assert (weather["data"]["height"], weather["data"]["width"]) == (768, 1152)
    assert "768 x 1152" in paper.workloads["extreme_weather"].note
    assert rules_of("hpc_ai500").results.runs == {"image_classification": 10, "extreme_weather": 5}
    assert rules_of("hpc_ai500").results.exponents == {"image_classification": 5, "extreme_weather": 10}
    assert quality_coefficient(0.35, paper.workloads["extreme_weather"].quality_target, 10) == 1
