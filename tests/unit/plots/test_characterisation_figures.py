"""Figures and tables of profiled runs: marks are counted, texts must not overlap, missing data is stated as text."""

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from unit.plots.test_figures import outside, overlaps, points, visible_texts
from unit.view_factory import (
    COLUMNS,
    KERNEL_SHARES,
    Tables,
    make_captures,
    make_empty_tables,
    make_point,
    make_rows,
    make_tables,
)

from hpcai.catalogue.figures import figures_of
from hpcai.config.published import load_published
from hpcai.metrics.scores.declared_checks import declared_breakdowns
from hpcai.plots.drawing import draw_figure
from hpcai.plots.profiles.communication import group_phase
from hpcai.plots.profiles.lanes import merge_spans, order_lanes
from hpcai.plots.profiles.panels import say_why_not
from hpcai.plots.theme import NOTHING_MEASURED, to_svg
from hpcai.profiles.views import as_view

REASON = "libdarshan.so was not found in $HOME or $PATH; " + "install darshan-runtime or name its path. " * 8
STUDIES = {
    "one": lambda: make_tables(1, counters=False),
    "ten": lambda: make_tables(10),
    "long_names": lambda: make_tables(4, names=["b" * 40, "c" * 40]),
    "nothing": make_empty_tables,
    "reasons": lambda: make_empty_tables(REASON),
}


@pytest.fixture(scope="module", params=STUDIES)
def study(request: pytest.FixtureRequest) -> tuple[str, Tables]:
    return request.param, STUDIES[request.param]()


@pytest.mark.parametrize("topic", figures_of("views"))
@pytest.mark.filterwarnings("error::UserWarning")
def test_figure_can_be_read(topic: str, study: tuple[str, Tables]) -> None:
    name, tables = study
    figure = draw_figure(topic, tables)
    figure.draw_without_rendering()
    texts = visible_texts(figure)
    assert texts
    words = [text.get_text() for text in texts]
    assert not any("nan" in word.lower() for word in words)
    assert overlaps(texts) == []
    assert outside(figure, texts) == []
    assert any("Nothing was measured" in word for word in words) == (name in {"nothing", "reasons"})
    if name == "reasons" and topic not in {"ceilings", "links"}:
        assert any("libdarshan.so was not found" in word for word in words)


@pytest.mark.parametrize("topic", figures_of("views"))
def test_svg_is_deterministic_and_keeps_its_text(topic: str) -> None:
    tables = make_tables(1)
    first, second = (to_svg(draw_figure(topic, tables)) for _ in range(2))
    assert first == second
    words = "".join(ElementTree.fromstring(first).itertext())
    assert "GEMM" in words if topic == "ceilings" else "2 ranks" in words
    assert len(first) < 1_000_000


@pytest.mark.parametrize("topic", figures_of("views"))
def test_tables_without_columns_are_tables_without_rows(topic: str) -> None:
    figure = draw_figure(topic, dict.fromkeys(COLUMNS, pd.DataFrame()))
    assert "Nothing was measured" in figure.axes[0].texts[0].get_text()


@pytest.mark.parametrize("topic", figures_of("views"))
@pytest.mark.filterwarnings("error::UserWarning")
def test_rows_without_values_are_drawn_as_not_measured(topic: str) -> None:
    tables = {name: make_rows(name) for name in COLUMNS}
    figure = draw_figure(topic, tables)
    figure.draw_without_rendering()
    assert "Nothing was measured" in figure.axes[0].texts[0].get_text()


def widths(figure: Figure, panel: int = 0) -> dict[float, float]:
    """Return the length of each stacked bar by position."""
    found: dict[float, float] = {}
    for bar in figure.axes[panel].patches:
        found[bar.get_y()] = found.get(bar.get_y(), 0.0) + bar.get_width()
    return found


def test_kernel_shares_fill_the_bar() -> None:
    figure = draw_figure("kernels", make_tables(3))
    assert list(widths(figure).values()) == pytest.approx([100.0] * 3)
    entries = [text.get_text() for text in figure.legends[0].get_texts()]
    assert entries[0] == "convolution"
    assert entries[-1] == "other"
    assert len(entries) == len(KERNEL_SHARES)


def test_kernel_category_keeps_its_colour_whatever_else_is_there() -> None:
    def colour(shares: dict[str, float]) -> tuple[float, ...]:
        rows = [make_rows("kernels", category=name, share_ratio=share) for name, share in shares.items()]
        figure = draw_figure("kernels", {"kernels": pd.concat(rows), "captures": pd.DataFrame()})
        keys = dict(
            zip([t.get_text() for t in figure.legends[0].get_texts()], figure.legends[0].get_patches(), strict=True)
        )
        return keys["memcpy"].get_facecolor()

    assert colour({"convolution": 0.5, "memcpy": 0.5}) == colour({"attention": 0.1, "memcpy": 0.8, "other": 0.1})


def test_counters_that_were_not_read_are_said_in_words() -> None:
    figure = draw_figure("kernels", make_tables(2, counters=False))
    said = [text.get_text() for axes in figure.axes for text in axes.texts]
    assert sum(word.startswith("not measured") for word in said) == 2


def test_counters_of_few_kernels_say_of_how_much_time_they_are() -> None:
    kernels = make_tables(1)["kernels"].assign(counted_ratio=1.0)
    kernels.loc[kernels["category"] == "GEMM", "counted_ratio"] = 0.4
    figure = draw_figure("kernels", {"kernels": kernels, "captures": pd.DataFrame()})
    figure.draw_without_rendering()
    said = [text.get_text() for text in figure.axes[1].texts]
    assert [words for words in said if "of" in words] == ["1.12\n(of 40 %)"]
    assert overlaps(visible_texts(figure)) == []


def test_phases_fill_the_bar_and_the_whole_operation_is_not_added_to_its_parts() -> None:
    figure = draw_figure("phases", make_tables(2))
    assert list(widths(figure).values()) == pytest.approx([100.0, 100.0])
    assert list(widths(figure, 1).values()) == pytest.approx([20.0, 20.0])


@pytest.mark.parametrize(
    ("phase", "group"),
    [
        ("NEGOTIATE_ALLREDUCE", "negotiation"),
        ("WAIT_FOR_OTHER_TENSOR_DATA", "waiting"),
        ("QUEUE", "queue"),
        ("MEMCPY_OUT_FUSION_BUFFER", "fusion buffer copies"),
        ("NCCL_ALLREDUCE", "transfer"),
        ("GLOO_ALLREDUCE", "transfer"),
        ("transfer", "transfer"),
        ("fusion buffer", "fusion buffer copies"),
        ("ALLREDUCE", None),
        ("INIT_NCCL", None),
    ],
)
def test_phases_are_grouped(phase: str, group: str | None) -> None:
    assert group_phase(phase) == group


def test_overlap_that_was_not_measured_is_not_drawn_as_exposed() -> None:
    figure = draw_figure("phases", make_tables(6))  # one run has four ranks and no overlap
    lengths = np.array([bar.get_width() for bar in figure.axes[1].patches]).reshape(6, 4)
    exposed, hidden, unknown, rest = lengths.T
    assert (exposed > 0).tolist() == (hidden > 0).tolist() == [True, False, True, True, True, True]
    assert (unknown > 0).tolist() == [False, True, False, False, False, False]
    assert rest == pytest.approx([10.0, 20.0, 10.0, 10.0, 10.0, 10.0])


def test_a_colour_of_the_phases_means_transfers_and_nothing_else() -> None:
    figure = draw_figure("phases", make_tables(2))
    (legend,) = figure.legends
    names = [" ".join(text.get_text().split()) for text in legend.get_texts()]
    looks = [(patch.get_facecolor(), patch.get_hatch() or "") for patch in legend.get_patches()]
    known = dict(zip(names, looks, strict=True))
    assert len(set(known.values())) == len(known) - 1, "transfers without a hatch look alike on both sides"
    colours = [colour for name, (colour, _) in known.items() if not name.startswith("transfer")]
    assert len({known[name][0] for name in known if name.startswith("transfer")}) == 1
    assert known["transfer"][0] not in colours
    assert len(set(colours)) == len(colours)


def test_spans_become_few_blocks_that_keep_their_extent() -> None:
    starts = np.arange(0.0, 1000.0)
    blocks = merge_spans(starts, starts + 0.5, 1.0)
    assert blocks == [(0.0, 999.5)]
    assert merge_spans(starts, starts + 0.5, 0.0)[:2] == [(0.0, 0.5), (1.0, 0.5)]
    assert merge_spans(np.array([5.0, 0.0, 1.0]), np.array([6.0, 4.0, 2.0]), 0.0) == [(0.0, 4.0), (5.0, 1.0)]
    assert merge_spans(np.array([]), np.array([]), 1.0) == []


def test_thousands_of_spans_are_drawn_as_blocks_with_their_busy_time() -> None:
    tables = make_tables(1)
    figure = draw_figure("lanes", tables)
    assert len(tables["lanes"]) > 2000
    assert sum(len(collection.get_paths()) for collection in figure.axes[0].collections) < 30
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert labels == ["computation: 10 ms", "negotiation: 7.9 ms", "fusion buffer: 1.4 ms", "transfer: 10 ms"]
    computation, negotiation = (collection.get_facecolor() for collection in figure.axes[0].collections[:2])
    assert computation[0][3] < negotiation[0][3] == 1.0  # a kernel runs for more than half of the time


def test_lanes_have_one_order() -> None:
    assert order_lanes(pd.Series(["transfer", "zero", "computation"])) == ["computation", "transfer", "zero"]


def test_every_distinct_batch_is_a_mark_beside_the_measured_allreduce() -> None:
    tables = make_tables(2)
    figure = draw_figure("messages", tables)
    assert 0.8 * len(tables["messages"]) < points(figure, "batches") <= len(tables["messages"])
    assert points(figure, "link") == 2 * (tables["links"]["what"] == "transfer").sum()
    repeated = dict(tables, messages=pd.concat([tables["messages"]] * 5))
    assert points(draw_figure("messages", repeated), "batches") == points(figure, "batches")


def test_messages_without_a_measured_allreduce() -> None:
    tables = {**make_tables(1), "links": pd.DataFrame(), "link_fits": pd.DataFrame()}
    figure = draw_figure("messages", tables)
    assert points(figure, "link") == 0
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["batches,\n2 ranks (n1x2)"]


def test_fit_is_the_line_of_latency_and_bandwidth() -> None:
    figure = draw_figure("links", make_tables(1))
    lines = [line for line in figure.axes[0].lines if line.get_gid() == "fit"]
    for line, latency_s in zip(lines, (1040e-6, 40e-6), strict=True):
        sizes, times = (np.asarray(values, dtype=float) for values in line.get_data())
        assert times == pytest.approx(latency_s + sizes / 2.1e9)


def test_one_size_of_message_can_be_drawn() -> None:
    tables = make_tables(1)
    one = {**tables, "links": tables["links"].iloc[:1], "messages": tables["messages"].iloc[:1]}
    for topic in ("links", "messages"):
        draw_figure(topic, one).draw_without_rendering()


def test_io_marks_say_whether_the_cache_was_cold() -> None:
    tables = make_tables(2)
    figure = draw_figure("io", tables)
    assert points(figure, "io") == 2 * (3 + 2)
    faces = [line.get_markerfacecolor() for line in figure.axes[0].lines if line.get_gid() == "io"]
    assert faces[3:] == ["white"] * 3
    assert "white" not in faces[:3]
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert "page cache cold" in labels[0]
    assert "page cache warm" in labels[1]
    assert len([line for line in figure.axes[0].lines if line.get_gid() == "ceiling"]) == 2  # one per storage location


def test_io_with_one_definition_and_no_epoch_time() -> None:
    io = make_rows("io", bandwidth_delivered_bytes_per_s=1e8, page_cache="unknown")
    figure = draw_figure("io", {"io": io, "ceilings": pd.DataFrame(), "captures": pd.DataFrame()})
    figure.draw_without_rendering()
    assert points(figure, "io") == 1
    assert any("nothing was measured" in text.get_text() for text in figure.axes[1].texts)


def test_reason_of_a_log_without_reads_is_told_before_that_of_the_capture() -> None:
    io = make_rows("io", reasons="POSIX module is empty", page_cache="unknown")
    figure = draw_figure("io", {"io": io, "ceilings": pd.DataFrame(), "captures": make_captures("not found")})
    assert figure.axes[0].texts[0].get_text() == NOTHING_MEASURED(why="POSIX module is empty")


def test_reasons_are_few_short_and_not_repeated() -> None:
    captures = pd.concat([make_captures(f"reason {number % 5}") for number in range(10)])
    words = say_why_not(captures, "io", "none")
    assert words.split("; ")[:3] == ["reason 0", "reason 1", "reason 2"]
    assert words.split("; ")[3:] == ["and 2 more reasons"]
    assert say_why_not(captures, "other", "none") == "none"
    assert len(say_why_not(make_captures("x" * 5000), "io", "none")) < 300


def test_ceilings_show_the_fastest_of_each_bar() -> None:
    tables = make_tables(1)
    slower = tables["ceilings"].assign(value=lambda frame: frame["value"] / 2, setting="1024")
    figure = draw_figure("ceilings", {"ceilings": pd.concat([tables["ceilings"], slower])})
    bars = [bar.get_width() for bar in figure.axes[0].patches]
    assert sorted(bars) == sorted(tables["ceilings"].query("unit == 'FLOP/s'")["value"].dropna())


def test_ceilings_of_memory_and_of_places_of_storage_are_bars_of_their_own() -> None:
    figure = draw_figure("ceilings", make_tables(1))
    labels = [label.get_text() for label in figure.axes[1].get_yticklabels()]
    for words in ("memory\nNumPy copy", "memory\nNumPy add", "storage, read, node-local\n", "storage, read, shared\n"):
        assert sum(label.startswith(words) for label in labels) == 1
    notes = [text.get_text() for text in figure.axes[1].texts]
    assert any(note == "19 GB/s, n = 10, spread 5 %" for note in notes)
    assert any(note.endswith("best of 2 ways") for note in notes)


def test_ceilings_that_are_disturbed_or_refused_are_marked() -> None:
    tables = make_tables(1)
    gemm = tables["ceilings"]["kind"] == "gemm"
    ceilings = tables["ceilings"].assign(status=np.where(gemm, "refused", "disturbed"))
    figure = draw_figure("ceilings", {"ceilings": ceilings})
    notes = [text.get_text() for axes in figure.axes for text in axes.texts]
    rates = [note for note in notes if "n = " in note]
    assert rates
    assert all(", refused" in note or ", disturbed" in note for note in rates)
    hollow = [bar for axes in figure.axes for bar in axes.patches if bar.get_facecolor() == (1.0, 1.0, 1.0, 1.0)]
    assert len(hollow) == sum(", refused" in note for note in rates) > 0


def test_ceiling_that_was_not_measured_says_why() -> None:
    figure = draw_figure("ceilings", make_tables(1))
    notes = [text.get_text() for text in figure.axes[0].texts]
    assert sum(note.startswith("not measured: oneDNN") for note in notes) == 1
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()].count("GEMM, fp64\nTensorFlow") == 1
    missing = make_tables(1)["ceilings"].assign(value=np.nan, reason="too few cores")
    assert draw_figure("ceilings", {"ceilings": missing}).axes[0].texts[0].get_text().endswith("too few cores")


def test_allreduce_that_could_not_be_fitted_says_why() -> None:
    fits = make_rows("link_fits", reason="one rank exchanges nothing")
    figure = draw_figure("links", {"links": pd.DataFrame(), "link_fits": fits})
    assert figure.axes[0].texts[0].get_text() == NOTHING_MEASURED(why="one rank exchanges nothing")


def test_staged_data_and_training_input_are_rows_of_their_own() -> None:
    figure = draw_figure("io", make_tables(3))
    labels = [label.get_text().splitlines()[1] for label in figure.axes[0].get_yticklabels()]
    assert labels == ["2 ranks (n1x2), training input"] * 2 + [
        "2 ranks (n1x2), staging",
        "2 ranks (n1x2), training input",
    ]
    assert sum(text.get_text().endswith("once") for text in figure.axes[1].texts) == 1


PUBLISHED = declared_breakdowns(load_published(Path(__file__).parents[3] / "config/published/hpc_ai500_v2.yaml"))


def make_exchange() -> pd.DataFrame:
    steps = {"NEGOTIATE_ALLREDUCE": 0.6, "MEMCPY_IN": 0.1, "NCCL_ALLREDUCE": 0.2, "MEMCPY_OUT": 0.1, "QUEUING": np.nan}
    rows = [
        {**make_point(ranks=2), "collective": collective, "step": step, "mean_s": share * 1e-3, "share_ratio": share}
        for collective in ("ALLREDUCE", "BROADCAST")
        for step, share in steps.items()
    ]
    return as_view("exchange_steps", rows)


def beside_published(**changed: pd.DataFrame) -> dict[str, pd.DataFrame]:
    views = {"kernels": make_tables(2)["kernels"], "exchange_steps": make_exchange(), "captures": pd.DataFrame()}
    return {**views, "declared_breakdowns": PUBLISHED, **changed}


@pytest.mark.parametrize(("name", "ours", "theirs"), [("kernels_published", 2, 3), ("exchange_published", 1, 2)])
@pytest.mark.filterwarnings("error::UserWarning")
def test_ours_stand_beside_the_published(name: str, ours: int, theirs: int) -> None:
    figure = draw_figure(name, beside_published())
    figure.draw_without_rendering()
    texts = visible_texts(figure)
    assert overlaps(texts) == []
    assert outside(figure, texts) == []
    assert list(widths(figure).values()) == pytest.approx([100.0] * (ours + theirs))
    alone = beside_published(declared_breakdowns=pd.DataFrame(columns=PUBLISHED.columns))
    assert len(widths(draw_figure(name, alone))) == ours
    nothing = {"kernels": pd.DataFrame(), "exchange_steps": pd.DataFrame()}
    assert len(widths(draw_figure(name, beside_published(**nothing)))) == theirs
    empty = {**nothing, "declared_breakdowns": pd.DataFrame(), "captures": pd.DataFrame()}
    assert "Nothing was measured" in draw_figure(name, empty).axes[0].texts[0].get_text()


def test_runs_without_counters_are_counted_not_listed() -> None:
    kernels = make_tables(2)["kernels"].assign(instructions_per_cycle=np.nan, dram_utilisation=np.nan)
    _, counted, _ = draw_figure("kernels_published", beside_published(kernels=kernels)).axes
    assert counted.get_title(loc="left").endswith("(not measured in 2 other runs)")
    assert len(counted.get_yticks()) == 3


def test_published_shares_are_printed_as_in_the_paper() -> None:
    said = {text.get_text() for text in draw_figure("exchange_published", beside_published()).axes[0].texts}
    assert {"29", "16", "60"} <= said  # Table 12: negotiation of both workloads, waiting for data
    said = {text.get_text() for text in draw_figure("kernels_published", beside_published()).axes[0].texts}
    assert {"35", "36"} <= said  # Fig. 10: convolution of image classification, allreduce of extreme weather
