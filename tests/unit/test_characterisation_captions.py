"""Captions of the characterisation, rendered as Snakemake renders them; any complaint of docutils is a failure."""

import json
from typing import Any

import pandas as pd
import pytest
from unit.caption_pages import REPORTS, says
from unit.caption_pages import render as render_page
from unit.view_factory import make_captures, make_empty_tables, make_point, make_rows, make_tables

from hpcai.metrics.profiles.advice import advise
from hpcai.metrics.roofline.samples_above import PADDED_RATIO
from hpcai.profiles.characterisation_table import characterisation_view
from hpcai.profiles.collect import summarise_views
from hpcai.profiles.views import VIEWS, as_view

NAMES = sorted(path.stem for path in (REPORTS / "captions").glob("*.rst") if "characterisation." in path.read_text())
NASTY = (
    "*bold `x` |sub| http://a_ \\ <script>alert(1)</script>\n\n.. raw:: html\n\n   <b> :math:`1` a_ [1]_ {{ 7 }} Ü #1)"
)


TEXTS = (
    "reason", "reasons", "tool", "rule_set", "scope", "method", "stage", "instrument", "sentence", "evidence", "topic",
    "what", "status", "profile", "page_cache", "data", "source",
)  # fmt: skip
RAW_VIEWS = {
    "messages": ("communication", "links"),
    "lanes": ("lanes",),
    "phases": ("communication",),
    "exchange_published": ("communication",),
    "kernels_published": ("kernels",),
}
"""Views that the raw files of a figure are named in, where that is not the view of its name."""
WITHOUT_OVERLAP = ("messages", "exchange_published")
"""Figures of communication that show no overlap, so they need not name its file."""
NOTICE = "not a valid result of any_suite"


def make_views(tables: dict[str, pd.DataFrame]) -> dict[str, Any]:
    """Return the views as the workflow summarises them for the report."""
    views = {name: as_view(name, []) for name in VIEWS} | {"advice": advise(tables)} | tables
    summary: dict[str, Any] = json.loads(summarise_views(views))
    return summary


def make_row(view: str, **values: object) -> pd.DataFrame:
    """Return one row of a view, with values in columns that the view has."""
    assert set(values) <= set(VIEWS[view])
    point = {name: value for name, value in make_point().items() if name in VIEWS[view]}
    return pd.DataFrame([{**dict.fromkeys(VIEWS[view]), **point, **values}])


def make_nasty() -> dict[str, Any]:
    texts = {view: dict.fromkeys({name for name in columns if is_text(name)}, NASTY) for view, columns in VIEWS.items()}
    rows = {view: make_row(view, **own) for view, own in texts.items() if view != "lanes"}
    return make_views({**make_tables(2), **rows, "captures": make_captures(NASTY)})


def is_text(column: str) -> bool:
    return column in TEXTS or column.endswith(("_reason", "_method", "_source"))


def is_source(column: str) -> bool:
    return column == "source" or column.endswith("_source")


STUDIES = {
    "one": lambda: make_views(make_tables(1)),
    "ten": lambda: make_views(make_tables(10)),
    "nothing": lambda: make_views(make_empty_tables(NASTY)),
    "blank": lambda: make_views({name: make_rows(name) for name in make_tables(1)}),
    "no_fit": lambda: make_views({**make_tables(1), "link_fits": make_rows("link_fits", scope="node", reason=NASTY)}),
    "nasty": make_nasty,
    "absent": lambda: None,
}


def render(name: str, summary: dict[str, Any] | None) -> str:
    return " ".join(render_page(name, summary).split())


@pytest.fixture(scope="module", params=STUDIES)
def views(request: pytest.FixtureRequest) -> Any:
    return STUDIES[request.param]()


@pytest.mark.parametrize("name", NAMES)
def test_caption_renders(name: str, views: Any) -> None:
    summary = {"notice": NOTICE, "characterisation": views}
    page = render(name, summary)
    assert "<script>" not in page
    assert "<b>" not in page
    assert "None" not in page
    assert " nan" not in page.lower()
    assert NOTICE in page
    assert "Nothing has been analysed yet" not in page


@pytest.mark.parametrize("name", NAMES)
def test_caption_before_anything_was_analysed(name: str) -> None:
    assert "Nothing has been analysed yet" in render(name, None)


def test_numbers_are_those_of_the_views() -> None:
    summary = {"notice": "", "characterisation": make_views(make_tables(6))}
    page = render("phases", summary)
    assert says(page, "negotiation 28.6 %", "communication 20.0 %", "transfers", "40.0 %, 20 steps")
    assert says(page, "transfers overlapped by computation", "not measured")
    page = render("messages", summary)
    assert "1800 batches in all" in page
    assert says(page, "latency 40.0 µs ± 1.0 µs", "bandwidth 2.1 GB/s ± 100 MB/s", "13 sizes")
    assert says(render("io", summary), "cache cold", "sum 1.1 GB/s", "parallel 900 MB/s", "delivered 150 MB/s")
    assert "and 3 more" in render("communication", summary)
    assert "other 5.0 %" in render("kernels", summary)
    page = render("ceilings", summary)
    of_storage = ("read, shared, one file, 1 thread", "1.4 GB/s", "1.26 GB/s", "n = 5", "20 %")
    assert says(page, "storage, read", *of_storage)
    assert says(page, "memory", "NumPy copy", "1 GiB, 2 threads", "19 GB/s")


@pytest.mark.parametrize("name", ["io", "kernels", "phases", "lanes", "messages", "communication", "power", "captures"])
def test_reason_of_what_was_not_measured(name: str) -> None:
    summary = {"notice": "", "characterisation": make_views(make_empty_tables("the tool is not there"))}
    assert "the tool is not there" in render(name, summary)


@pytest.mark.parametrize("name", [name for name in NAMES if name in RAW_VIEWS or any(map(is_source, VIEWS[name]))])
def test_caption_names_the_raw_files_of_its_view(name: str) -> None:
    tables, wanted = make_empty_tables(), []
    for view in RAW_VIEWS.get(name, (name,)):
        columns = [column for column in VIEWS[view] if is_source(column)]
        files = {column: f"results/{view}/{column}.raw" for column in columns}
        tables[view] = make_row(view, **files)
        wanted += [file for column, file in files.items() if column != "overlap_source" or name not in WITHOUT_OVERLAP]
    summary = {"notice": "", "characterisation": make_views(tables)}
    page = render(name, summary)
    assert [file for file in wanted if file not in page] == []


@pytest.mark.parametrize("name", ["kernels", "lanes"])
def test_row_of_several_raw_files_names_each_once(name: str) -> None:
    rows = pd.concat([make_row(name, source=f"steps.xplane.pb, {other}") for other in ("a.json", "a.json", "b.json")])
    views = make_views({**make_empty_tables(), name: rows})
    page = render(name, {"notice": "", "characterisation": views})
    assert "raw files: steps.xplane.pb, a.json, b.json." in page


def test_characterisation_defines_the_bandwidths_that_its_view_holds() -> None:
    tables = make_tables(1)
    counters = make_row("counters", dram_rate_bytes_per_s=9e9, source="raw/ncu.csv")
    view = characterisation_view({**tables, "counters": counters, "work": as_view("work", [])})
    page = render(
        "characterisation", {"notice": "", "characterisation": make_views({**tables, "characterisation": view})}
    )
    communication, io = tables["communication"].iloc[0], tables["io"].iloc[0]
    assert says(page, "memory:", "DRAM", "kernel time")
    assert says(page, "memory 9 GB/s", "hardware counters, n1x2")
    assert says(page, "network:", "bus bandwidth", "2 (n - 1) / n times")
    assert f"network {communication['bus_bandwidth_bytes_per_s'] / 1e6:.3g} MB/s" in page
    assert says(page, "I/O: bytes read", "worker process")
    assert f"I/O {io['bandwidth_sum_bytes_per_s'] / io['workers'] / 1e6:.3g} MB/s" in page
    assert "raw/ncu.csv" in page
    assert communication["source"] in page
    assert "algorithm bandwidth" not in page
    assert "delivered" not in page


def test_work_says_how_it_was_counted_and_from_how_many_runs_the_rate_is() -> None:
    row = make_row("work", method="formula", flop_per_sample=2e9, rate_flop_per_s=3e10, rate_n=5)
    blank = row.assign(scale="n1x4", rate_flop_per_s=float("nan"), rate_n=0)
    views = make_views({**make_empty_tables(), "work": pd.concat([row, blank])})
    page = render("work", {"notice": "", "characterisation": views})
    assert says(page, "formula: 2 GFLOP", "rate 30 GFLOP/s, n = 5")
    assert says(page, "formula: 2 GFLOP", "rate not measured")
    assert all(word in page for word in ("formula_sixfold", "optimized_hlo", "before optimisation", "padded"))


def test_kernels_say_what_was_not_read() -> None:
    rows = [make_row("kernels", category=name, reasons="the trace ends early") for name in ("GEMM", "memcpy")]
    views = make_views({**make_empty_tables(), "kernels": pd.concat(rows)})
    page = render("kernels", {"notice": "", "characterisation": views})
    assert page.count(": the trace ends early") == 1


def test_the_caption_of_ceilings_has_the_tolerance_of_the_rule() -> None:
    page = render("ceilings", {"notice": "", "characterisation": make_views(make_tables(1))})
    assert f"{100 * PADDED_RATIO:.0f} % faster" in " ".join(page.split())
