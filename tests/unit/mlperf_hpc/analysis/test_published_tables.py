"""Tables IV to VI as they would be printed, and the paper's text where results are missing."""

from unit.mlperf_hpc.analysis.published import read_published

from hpcai.mlperf_hpc.analysis.published_tables import table_five, table_four, table_six
from hpcai.mlperf_hpc.analysis.published_text import SUBMISSIONS, text_numbers


def test_table_four_has_all_submissions() -> None:
    table = table_four(read_published().results).set_index("label")
    assert len(table) == 15
    row = table.loc["CSCS daint_gpu_n128"]
    assert round(row["time_to_solution_min"], 2) == 461.01
    assert (row["processors"], row["accelerators"], row["samples_per_unit"]) == (128, 128, 2)


def test_table_five_leaves_out_who_stages_nothing() -> None:
    table = table_five(read_published().results)
    assert len(table) == 8
    assert table["staging_min"].min() > 0.2
    row = table.set_index("label").loc["*Fujitsu abci_1024xV100"]
    assert round(row["staging_min"], 2) == 1.96
    assert round(row["staging_ratio"], 2) == 5.45


def test_table_six_has_both_times() -> None:
    row = table_six(read_published().results).set_index("label").loc["Fujitsu abci_512xV100"]
    assert round(row["time_to_solution_min"], 2) == 34.34
    assert round(row["time_to_solution_by_target_min"], 2) == 34.42
    assert round(row["budget_unit_h"], 2) == 293.03
    assert row["global_batch_samples"] == row["units"] == 512


def test_text_names_the_submissions_that_are_missing() -> None:
    runs, results = read_published()
    missing, _ = SUBMISSIONS["Piz-Daint-256"]
    table = text_numbers(runs, results[results["submission"] != missing])
    lost = table[table["value_ratio"].isna()]
    assert set(lost["reason"]) == {"no result of Piz-Daint-256"}
    assert len(lost) == 5
    assert len(table) == 25
