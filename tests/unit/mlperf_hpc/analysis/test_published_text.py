"""The numbers of the paper's text where results are missing."""

from unit.mlperf_hpc.analysis.published import read_published
from unit.mlperf_hpc.analysis.published_text import SUBMISSIONS, text_numbers


def test_text_names_the_submissions_that_are_missing() -> None:
    runs, results = read_published()
    missing, _ = SUBMISSIONS["Piz-Daint-256"]
    table = text_numbers(runs, results[results["submission"] != missing])
    lost = table[table["value_ratio"].isna()]
    assert set(lost["reason"]) == {"no result of Piz-Daint-256"}
    assert len(lost) == 5
    assert len(table) == 25
