"""The page as text: content and escapes, no other files needed, and equal bytes from equal folders."""

import base64
import hashlib
import html
import json
import re
import shutil
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from unit.record_factory import (
    make_benchmark,
    make_image_benchmark,
    make_machine,
    make_mixed_study,
    make_record,
    make_study,
    make_two_suites,
)
from unit.report.prediction_tables import make_tables
from unit.report.result_factory import make_campaign, write_results

from hpcai.compare.changes import CHANGE_COLUMNS
from hpcai.compare.history import HISTORY_COLUMNS
from hpcai.compare.scores import COMPARISON_COLUMNS
from hpcai.core.errors import ParseError
from hpcai.core.stalls import Stalls, say_stall
from hpcai.metrics.statistics.summaries import INTERVAL
from hpcai.metrics.summary import HOLD_A_PAUSE
from hpcai.mlperf_hpc.analysis.round_tables import analyse_tables, source_tables
from hpcai.records.run import RunRecord
from hpcai.report.cells import POINT, RAW
from hpcai.report.page import KEY_FIGURES, NO_ANSWER, write_report
from hpcai.report.prediction_sections import PREDICTION_SECTIONS
from hpcai.report.section_specs import FigureSpec
from hpcai.report.sections import NO_EARLIER, SECTIONS
from hpcai.report.tables import NOT_MADE, TableSpec, spec_of

SOURCES = Path(__file__).parents[3] / "reports"
NASTY = "*bold `x` |sub| http://a_ \\ <script>alert(1)</script> .. raw:: html :math:`1` a_ [1]_ {{ 7 * 7 }} Ünï #1) - x"
VOID = {"meta", "img", "link", "br", "hr", "input", "col"}


class Reader(HTMLParser):
    """Notes ids, links, sources and elements that are not closed in order."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.sources: list[str] = []
        self.wrong: list[str] = []
        self.headings: list[int] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        named = dict(attributes)
        if tag not in VOID:
            self.open.append(tag)
        if named.get("id"):
            self.ids.append(str(named["id"]))
        if tag == "a":
            self.links.append(str(named["href"]))
        if "src" in named:
            self.sources.append(str(named["src"]))
        if tag == "img" and "alt" not in named:
            self.wrong.append("an image without a text")
        if tag == "th" and "scope" not in named and "hpc-ai500" not in str(named):
            self.wrong.append("a heading of a table without a scope")
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.wrong.append(f"</{tag}> in line {self.getpos()[0]}")


def make_page(folder: Path, records: list[RunRecord], **options: Any) -> str:
    results = write_results(folder, records, full=options.pop("full", False), **options)
    write_report(results, SOURCES, results / "report.html")
    return (results / "report.html").read_text()


def read_words(page: str) -> str:
    """Return the visible text, without markup."""
    body = page[page.index("<main") :]
    body = re.sub(r"<script.*?</script>", " ", body, flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", body)).split())


def read_summary(results: Path) -> str:
    """Return the text of the first section of a written page."""
    page = (results / "report.html").read_text()
    return read_words(page[: page.index('id="scores"')])


def read_page(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    return reader


def nasty_study() -> list[RunRecord]:
    benchmark = make_benchmark(title=NASTY, target={"value": 0.3, "note": NASTY})
    plan: dict[str, Any] = {"benchmark": benchmark, "machine": make_machine(title=NASTY)}
    good = [make_record(repetition=n, **plan) for n in (1, 2)]
    bad = make_record("failed", repetition=3, record={"reason": f"{NASTY}\n\n.. raw:: html\n\n   <b>\x00"}, **plan)
    return [bad, make_record("timed_out", repetition=4, record={"reason": ""}, **plan), *good]


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    results = write_results(tmp_path_factory.mktemp("full"), make_campaign())
    write_report(results, SOURCES, results / "report.html")
    return results


@pytest.fixture(scope="module")
def full_page(full: Path) -> str:
    return (full / "report.html").read_text()


STUDIES = {
    "mixed": make_mixed_study,
    "one": lambda: make_study(ranks=(1,), repeats=1),
    "all_failed": lambda: [make_record("failed"), make_record("timed_out", repetition=2)],
    "nasty": nasty_study,
    "empty": list,
}


@pytest.mark.parametrize("study", STUDIES)
def test_every_study_has_a_well_formed_page(study: str, tmp_path: Path) -> None:
    page = make_page(tmp_path, STUDIES[study](), title=NASTY if study == "nasty" else "A study")
    reader = read_page(page)
    assert reader.wrong == []
    assert reader.open == []
    assert len(set(reader.ids)) == len(reader.ids)
    assert {link[1:] for link in reader.links if link.startswith("#")} <= set(reader.ids)
    words = read_words(page)
    assert not re.search(r"\b(nan|None|NaT|Undefined)\b", words)
    assert "<script>alert" not in page


def test_page_of_an_empty_folder_says_so(tmp_path: Path) -> None:
    write_report(tmp_path, SOURCES, tmp_path / "report.html")
    words = read_words((tmp_path / "report.html").read_text())
    assert "Nothing was measured" in words
    assert "Nothing has been analysed yet" in words
    assert NOT_MADE(table="tables/runs.parquet") in words
    assert NO_EARLIER() in words
    assert read_page((tmp_path / "report.html").read_text()).wrong == []


def test_study_without_runs_has_no_answer(tmp_path: Path) -> None:
    words = read_words(make_page(tmp_path, []))
    assert NO_ANSWER() in words
    assert "answer.parquet" not in words


def test_page_tells_the_answer(tmp_path: Path) -> None:
    words = read_words(make_page(tmp_path, make_mixed_study()))
    for sentence in (
        "A study", "4/4", "1/5", "not a valid MLPerf HPC result: generated data", "rank 1 ended with signal 9",
        "too few runs (5 of 10 that the rules require)", "0123456789abcdef", "tensorflow 2.18.1", "Not valid results.",
        "1 not converged", "1 diverged", "1 failed", "1 timed out", "4 runs with problems", "base n1x1", "is the base",
        "2026-01-02 03:01 to 03:05 UTC", "A machine for tests",
    ):  # fmt: skip
        assert sentence in words


def test_page_says_beside_a_time_that_it_holds_a_pause(tmp_path: Path) -> None:
    first, *others = make_study(ranks=(1,))
    assert first.training is not None
    stalls = Stalls(count=1, longest_s=20.1, beside_s=0.02)
    paused = first.model_copy(update={"training": first.training.model_copy(update={"stalls": stalls})})
    page = make_page(tmp_path, [paused, *others])
    answer = page[page.index('id="answer"') :]
    words = read_words("<main>" + answer[: answer.index("</table>")])
    assert words.count(f"stalled 1/4: {say_stall(20.1, 0.02)}") == 2
    pause = HOLD_A_PAUSE.find_in(read_words(page))
    assert pause["runs"] == "1"
    assert pause["named"].startswith("cosmoflow_tiny/fp32/n1x1/r1")


def test_page_names_the_suite_of_each_benchmark(tmp_path: Path) -> None:
    page = make_page(tmp_path, make_two_suites())
    for sentence in (
        "(HPC AI500 V2.0): not a valid HPC AI500 V2.0 result: generated data",
        "(MLPerf HPC): not a valid MLPerf HPC result: generated data",
        "too few trials (4 of 10 that the rules require)",
        "not valid",
        "the clock starts when the first training batch is read",
        "images_tiny (HPC AI500 V2.0)",
    ):
        assert sentence in read_words(page), sentence


def test_banner_follows_the_verdicts(tmp_path: Path) -> None:
    results = write_results(tmp_path, make_two_suites(), full=False)
    summary = json.loads((results / "summary.json").read_text())
    for valid, headline in (([True, True], "Valid results."), ([True, False], "Some results are not valid.")):
        verdicts = [{**verdict, "valid": own} for verdict, own in zip(summary["verdicts"], valid, strict=True)]
        (results / "summary.json").write_text(json.dumps({**summary, "verdicts": verdicts}))
        write_report(results, SOURCES, results / "report.html")
        assert headline in read_words((results / "report.html").read_text())


def test_free_text_arrives_as_it_was_written(tmp_path: Path) -> None:
    page = make_page(tmp_path, nasty_study(), title=NASTY)
    # The study's title (twice), the machine's, the benchmark's with its note, and a reason.
    assert page.count(html.escape(NASTY)) >= 5
    assert "not given" in read_words(page)
    assert "\x00" not in page


def test_what_takes_a_measurement_of_its_own_says_how_to_get_it(tmp_path: Path) -> None:
    page = make_page(tmp_path, [make_record()])
    later = [section for section in PREDICTION_SECTIONS if section.unmade]
    assert len(later) == 5
    assert read_words(page).count(later[0].unmade) == len(later)
    # Nothing of them is an empty panel.
    parts = {part.name for section in later for part in section.parts}
    assert not any(f'id="figure-{name}"' in page or f'id="table-{name}"' in page for name in parts)


def test_nothing_measured_is_said_in_words(tmp_path: Path) -> None:
    words = read_words(make_page(tmp_path, [make_record("failed")]))
    assert "not measured" in words
    assert "0.0 s" not in words
    assert "0/1" in words


@pytest.mark.parametrize(
    "records", [make_study, make_two_suites, lambda: [make_record(benchmark=make_image_benchmark())]]
)
def test_sentences_of_the_rules_have_blanks_between_them(
    tmp_path: Path, records: Callable[[], list[RunRecord]]
) -> None:
    page = make_page(tmp_path, records())
    (said,) = re.findall(r"<p>Time to train is.*?</p>", page, re.DOTALL)
    assert not re.search(r"\.[A-Z]", re.sub(r"<[^>]+>", "", said))
    (row_words,) = re.findall(r"<p[^>]*>All numbers here are measured.*?</p>", page, re.DOTALL)
    is_hpc_ai500 = "HPC AI500 V2.0 the clock" in said
    assert ("of HPC AI500 only" in said) == ("of HPC AI500: only" in row_words) == is_hpc_ai500


def test_failed_runs_are_marked_rows_with_reason_and_raw_files(full_page: str) -> None:
    rows = re.findall(r'<tr class="bad"><th.*?</tr>', full_page, re.DOTALL)
    failed = [row for row in rows if "cosmoflow_tiny/fp32/n1x2/r5" in row]
    assert len(failed) >= 2
    assert any("rank 1 ended with signal 9" in row for row in failed)
    assert all('href="runs/cosmoflow_tiny/fp32/n1x2/r5/record.json"' in row for row in failed)
    assert any('href="runs/cosmoflow_tiny/fp32/n1x2/r5/raw/output.log"' in row for row in failed)


def test_all_runs_are_rows(full: Path, full_page: str) -> None:
    section = full_page[full_page.index('id="table-runs"') :]
    runs = pd.read_parquet(full / "tables" / "runs.parquet")
    assert section[: section.index("</table>")].count('<th scope="row"') == len(runs)


def test_page_gives_the_first_advice_of_each_topic(tmp_path: Path) -> None:
    results = write_results(tmp_path, make_mixed_study(), full=False)
    point = {"benchmark": "cosmoflow_tiny", "variant": "fp32", "engine": "horovod", "scale": "n1x2"}
    said = [("communication", "First *word*."), ("communication", "Second word."), ("io", "Third word.")]
    rows = [{**point, "topic": topic, "sentence": sentence} for topic, sentence in [*said, ("kernels", "Nothing is.")]]
    (results / "characterisation.json").write_text(json.dumps({"advice": rows}))
    write_report(results, SOURCES, results / "report.html")
    words = read_summary(results)
    assert "First *word*." in words
    assert "Third word." in words
    assert "Second word." not in words
    assert "Nothing is." not in words
    (results / "characterisation.json").unlink()
    write_report(results, SOURCES, results / "report.html")
    assert "Advice from the profiles (0)" in read_summary(results)


def test_full_page_has_every_section_and_key_figures_first(full_page: str) -> None:
    reader = read_page(full_page)
    assert reader.wrong == []
    names = ["summary", *(section.anchor for section in SECTIONS), "hpc-ai500", "runs", "provenance", "definitions"]
    assert [name for name in reader.ids if name in names] == names
    first = full_page[full_page.index('id="summary"') : full_page.index('id="scores"')]
    assert [f'href="#figure-{name}"' in first for name in KEY_FIGURES] == [True] * len(KEY_FIGURES)
    assert all(
        following - heading <= 1 for heading, following in zip(reader.headings, reader.headings[1:], strict=False)
    )


def test_a_study_shows_its_own_figures_before_all_else(full: Path, tmp_path: Path) -> None:
    results = tmp_path / "results"
    shutil.copytree(full, results)
    wanted = ["variant_effects", "quality", "unknown"]
    study = json.loads((results / "study.json").read_text())
    (results / "study.json").write_text(json.dumps({**study, "show_first": wanted, "corresponds_to": "Paper, Fig. 4"}))
    write_report(results, SOURCES, results / "report.html")
    page = (results / "report.html").read_text()
    reader = read_page(page)
    assert reader.wrong == []
    figures = [name for name in reader.ids if name.startswith("figure-")]
    assert figures[:2] == ["figure-variant-effects", "figure-quality"]
    assert len(figures) == len(set(figures))
    assert page.index('id="figure-quality"') < page.index('id="answer"')
    assert page.count("Corresponds to Paper, Fig. 4.") == len(figures[:2])


def test_answer_joins_scales_and_scores(full: Path, full_page: str) -> None:
    answer = full_page[full_page.index('id="answer"') :]
    words = read_words("<main>" + answer[: answer.index("</table>")])
    scores = pd.read_parquet(full / "tables" / "scores.parquet")
    assert words.count("FLOP/s") > len(scores)
    assert "exponent 5" in words
    statistics = pd.read_parquet(full / "tables" / "scales.parquet")["statistic"]
    assert all(words.count(said) >= (statistics == said).sum() for said in statistics if said)
    assert any(said.startswith("median of") for said in statistics)
    assert "not defined" in words
    assert 'href="runs/images_tiny/fp32/n1x1/"' in answer


def test_page_needs_no_other_file_and_no_network(full_page: str) -> None:
    reader = read_page(full_page)
    assert all(source.startswith("data:image/svg+xml;base64,") for source in reader.sources)
    assert not any("://" in link or link.startswith("/") for link in reader.links)
    assert "default-src 'none'" in full_page
    assert not re.search(r"@import|url\(", full_page[: full_page.index("</style>")])


def test_policy_allows_exactly_the_scripts_of_the_page(full_page: str) -> None:
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', full_page)
    assert policy
    allowed = set(re.findall(r"sha256-[\w+/=]+", html.unescape(policy[1])))
    scripts = re.findall(r"<script(?: type=\"text/plain\" id=\"chart-library\")?>(.*?)</script>", full_page, re.DOTALL)
    hashes = {"sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts}
    assert hashes == allowed
    assert "unsafe-eval" not in policy[1]


def test_page_without_charts_does_not_carry_their_library(tmp_path: Path) -> None:
    assert 'id="chart-library"' not in make_page(tmp_path, make_mixed_study())


def test_equal_folders_give_equal_bytes(full: Path, full_page: str, tmp_path: Path) -> None:
    other = tmp_path / "elsewhere"
    # Written in another order, at another time, at another place.
    for path in sorted(full.rglob("*"), reverse=True):
        if path.is_file():
            (other / path.relative_to(full)).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, other / path.relative_to(full))
    write_report(other, SOURCES, other / "report.html")
    assert (other / "report.html").read_text() == full_page


def test_columns_of_the_page_are_those_of_the_tables(full: Path) -> None:
    known = {path.stem: tuple(pd.read_parquet(path).columns) for path in (full / "tables").glob("*.parquet")}
    known |= {"comparison": COMPARISON_COLUMNS, "changes": CHANGE_COLUMNS, "history": HISTORY_COLUMNS}
    rounds = analyse_tables(source_tables([]))
    known |= {name: tuple(table.columns) for name, table in rounds.items()}
    known |= {name: tuple(table.columns) for name, table in make_tables(make_machine()).items()}
    specs = [part for section in SECTIONS for part in section.parts if isinstance(part, TableSpec)]
    specs += [spec_of("runs"), spec_of("captures")]
    for spec in specs:
        wanted = {
            name
            for column in spec.columns
            for name in (column.key, column.low, column.high, column.n, column.reason, column.note, column.link)
        } - {"", POINT, RAW}
        there = set(spec.group(rounds[spec.name]).columns if spec.group else known[spec.name])
        assert wanted - there == set(), spec.name


def test_every_table_of_the_page_links_its_raw_files() -> None:
    without = {"inconsistencies", "scaling", "verdicts", "scales", "advice", "declared_checks", "declared_breakdowns"}
    # Rows that cover all logs of a round, or rows of mlperf_results, which name the logs.
    without |= {"mlperf_runs", "mlperf_efficiencies", "mlperf_principal", "mlperf_prediction_errors"}
    sources = {"source", "raw", RAW, "record_path"}
    for section in SECTIONS:
        for part in section.parts:
            if isinstance(part, TableSpec) and part.name not in without:
                keys = {column.key for column in part.columns}
                assert keys & sources or any(key.endswith("_source") for key in keys), part.name


def test_every_figure_names_its_tables() -> None:
    for section in SECTIONS:
        assert all(part.tables for part in section.parts if isinstance(part, FigureSpec))


@pytest.mark.parametrize("name", ["summary.json", "tables/runs.parquet", "figures/roofline.json"])
def test_damaged_file_is_named(full: Path, tmp_path: Path, name: str) -> None:
    results = tmp_path / "results"
    shutil.copytree(full, results, ignore=shutil.ignore_patterns("runs"))
    (results / name).write_bytes(b"{damaged")
    with pytest.raises(ParseError, match=rf"{re.escape(name)}.*run the workflow again"):
        write_report(results, SOURCES, results / "report.html")


def test_captions_stand_with_their_figures(full_page: str) -> None:
    figure = full_page[full_page.index('id="figure-time-to-train"') :]
    caption = read_words("<main>" + figure[: figure.index("</figure>")])
    assert INTERVAL in caption
    assert "Made from: runs" in caption
    assert re.search(r"(median of \d|mean of \d)", caption)
    assert "<details>" in figure[: figure.index("</figure>")]
