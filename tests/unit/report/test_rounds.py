"""The sections on MLPerf HPC rounds: rows that cover many files, and the separate page."""

from pathlib import Path

import pytest
from unit.plots.mlperf_factory import make_results, make_runs
from unit.refusals import refused
from unit.report.rounds_factory import NASTY, make_folder, make_repairs, make_verdicts

from hpcai.catalogue.figures import figures_of
from hpcai.core.errors import ConfigError
from hpcai.metrics.run_tables import write_tables
from hpcai.mlperf_hpc.analysis.round_tables import analyse_tables, source_tables
from hpcai.report.own_pages import NOT_IMPORTED, write_page_of
from hpcai.report.page import write_report, write_rounds_page
from hpcai.report.rounds import group_fastest, group_findings, group_origins, group_repairs
from hpcai.report.sections import NO_RESULT, NO_ROUND, ROUND_SECTIONS, SECTIONS

SOURCES = Path(__file__).parents[3] / "reports"


def test_failures_of_one_rule_are_one_row_of_a_submission() -> None:
    grouped = group_findings(make_verdicts())
    assert len(grouped) == 1
    row = grouped.iloc[0]
    assert (row["logs"], row["line"]) == (2, 7)
    assert row["source"] == "A/results/x/deepcam/result_1.txt"


def test_repairs_of_one_kind_are_one_row_of_a_round() -> None:
    grouped = group_repairs(make_repairs()).set_index("origin")
    assert grouped.loc["v0.7", ["files", "repairs"]].tolist() == [2, 3]
    assert grouped.loc["v1.0", ["files", "repairs"]].tolist() == [1, 1]


def test_rounds_are_counted() -> None:
    results = make_results(6, ("v0.7", "v1.0"))
    runs = make_runs(results).assign(complies=[*[False] * 2, *[True] * 78], reaches_target=True, repairs=2)
    grouped = group_origins(runs).set_index("origin")
    assert list(grouped.index) == ["v0.7", "v1.0"]
    assert grouped["results"].tolist() == [6, 6]
    assert grouped["logs"].tolist() == [40, 40]
    assert grouped["complying"].tolist() == [38, 40]
    assert grouped["repairs"].tolist() == [80, 80]
    assert grouped.loc["v0.7", "benchmarks"] == "cosmoflow, deepcam, oc20"


def test_pruned_instances_are_no_result_of_their_own() -> None:
    """Of v1.0 the page counted 32 results; there are 31."""
    results = make_results(3, ("v1.0",)).assign(scaling="weak")
    runs = make_runs(results).assign(complies=True, reaches_target=True, repairs=0, rule_set_reason="")
    runs.loc[runs["number"] > 3, "scaling"] = "weak_pruned"
    grouped = group_origins(runs)
    assert (grouped["results"].tolist(), grouped["logs"].tolist()) == ([3], [len(runs)])


def test_the_fastest_of_each_benchmark_round_and_division_stand_first() -> None:
    results = make_results(6, ("v0.7", "v1.0"))
    results.loc[0, "run_by_target_s"] = float("nan")
    fastest = group_fastest(results)
    best = results.groupby(["benchmark", "origin", "division"])["run_by_target_s"].min().dropna()
    assert fastest.set_index(["benchmark", "origin", "division"])["run_by_target_s"].to_dict() == best.to_dict()
    assert fastest["run_by_target_s"].notna().all()


def test_rounds_say_why_they_have_their_rule_set() -> None:
    why = "the round is named v0.7; the package has no rules for v0.7, those of v1.0 are the nearest"
    runs = make_runs(make_results(6, ("v0.7",))).assign(complies=True, reaches_target=True, repairs=0)
    assert group_origins(runs.assign(rule_set_reason=why))["rule_set_reason"].tolist() == [why]
    assert group_origins(runs.drop(columns="rule_set_reason", errors="ignore"))["rule_set_reason"].tolist() == [""]


def test_rounds_have_a_page_without_a_study(tmp_path: Path) -> None:
    folder = make_folder(tmp_path, place="rounds_page/")
    write_rounds_page(folder, "rounds_page/", SOURCES, folder / "rounds.html")
    page = (folder / "rounds.html").read_text()
    assert "MLPerf HPC rounds: v0.7, v1.0" in page
    assert all(f'id="{section.anchor}"' in page for section in ROUND_SECTIONS)
    assert not any(f'id="{section.anchor}"' in page for section in SECTIONS if section not in ROUND_SECTIONS)
    assert 'href="rounds_page/tables/mlperf_results.csv"' in page
    # The made-up results are of no system, so nothing is predicted.
    assert page.count("data:image/svg+xml") == len(figures_of("rounds")) - 1
    assert page.count(NO_RESULT) == 1
    assert NASTY not in page
    assert "Nothing has been analysed yet" not in page
    # Its definitions are those of its own columns.
    assert 'id="def-staging-share-ratio"' in page
    assert 'id="def-valid-rate-flop-per-s"' not in page


def test_the_report_shows_rounds_beside_the_study(tmp_path: Path) -> None:
    folder = make_folder(tmp_path, place="")
    write_report(folder, SOURCES, folder / "report.html")
    page = (folder / "report.html").read_text()
    assert 'id="table-mlperf-results-budgets"' in page
    assert 'href="tables/mlperf_results.parquet"' in page
    assert NO_ROUND not in page


@pytest.mark.parametrize("made", [True, False])
def test_without_rounds_the_report_says_so(*, made: bool, tmp_path: Path) -> None:
    if made:
        write_tables(analyse_tables(source_tables([])), tmp_path / "tables")
    write_report(tmp_path, SOURCES, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert page.count(NO_ROUND) == 1
    assert page.count(NO_RESULT) == len(ROUND_SECTIONS) - 1


def test_a_folder_that_is_no_imported_round_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with refused(ConfigError, NOT_IMPORTED):
        write_page_of([tmp_path], tmp_path / "page")
    assert not (tmp_path / "page").exists()
