"""Quality against the global batch, and the schedules of learning rates, as they are drawn."""

import pandas as pd
import pytest
from matplotlib.figure import Figure
from unit.record_factory import make_study, write_records

from hpcai.core.limits import MOST_LINES_NAMED
from hpcai.metrics.run_tables import collect_epochs, collect_runs
from hpcai.plots.scores.large_batch import ONE_BATCH, plot_learning_rate, plot_quality_against_batch


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> tuple[pd.DataFrame, pd.DataFrame]:
    paths = write_records(make_study(ranks=(1, 2), repeats=3), tmp_path_factory.mktemp("study"))
    return collect_runs(paths), collect_epochs(paths)


def with_batches(runs: pd.DataFrame) -> pd.DataFrame:
    """One scale with two batches, that of half of its runs larger; the last run of the larger one diverged."""
    changed = runs.assign(global_batch_samples=32 * runs["ranks"], scale="n1x1", ranks=1, nodes=1)
    changed.loc[changed.index[-1], ["outcome", "last_quality"]] = ["diverged", float("nan")]
    return changed


def legend_of(drawing: Figure) -> list[str]:
    return [text.get_text() for legend in drawing.legends for text in legend.get_texts()]


def test_each_run_is_a_mark_and_a_line_joins_the_means(tables: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    runs = with_batches(tables[0])
    drawing = plot_quality_against_batch(runs)
    (axes,) = drawing.axes
    marks, line, lost, target = axes.lines
    assert len(marks.get_xdata()) == 5
    means = runs.dropna(subset=["last_quality"]).groupby("global_batch_samples")["last_quality"].mean()
    assert list(line.get_xdata()) == [32, 64]
    assert list(line.get_ydata()) == pytest.approx(means.to_list())
    assert list(lost.get_xdata()) == [64]
    assert target.get_ydata()[0] == runs["quality_target"].iloc[0]
    assert "cosmoflow_tiny, n1x1" in legend_of(drawing)


def test_variants_that_differ_in_more_than_the_batch_make_lines_of_their_own(
    tables: tuple[pd.DataFrame, pd.DataFrame],
) -> None:
    runs = with_batches(tables[0])
    both = pd.concat([runs, runs.assign(precision="bf16", variant="bf16", run_id="other/" + runs["run_id"])])
    names = legend_of(plot_quality_against_batch(both))
    assert {"cosmoflow_tiny, n1x1, fp32", "cosmoflow_tiny, n1x1, bf16"} <= set(names)


def test_runs_on_other_ranks_are_no_runs_of_another_batch_alone(tables: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    weak = tables[0].assign(global_batch_samples=32 * tables[0]["ranks"])
    (axes,) = plot_quality_against_batch(weak).axes
    assert [text.get_text() for text in axes.texts] == [ONE_BATCH]
    both = pd.concat([weak, weak.assign(global_batch_samples=128, variant="large", run_id="other/" + weak["run_id"])])
    names = legend_of(plot_quality_against_batch(both))
    assert {"cosmoflow_tiny, n1x1", "cosmoflow_tiny, n1x2"} <= set(names)


def test_one_batch_shows_nothing(tables: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    (axes,) = plot_quality_against_batch(tables[0]).axes
    assert [text.get_text() for text in axes.texts] == [ONE_BATCH]


def test_the_legend_tells_lost_runs_only_where_there_are_some(tables: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    runs = with_batches(tables[0])
    kept = runs.assign(outcome="converged", last_quality=0.1)
    assert len(legend_of(plot_quality_against_batch(runs))) == len(legend_of(plot_quality_against_batch(kept))) + 1


def test_a_legend_inside_a_panel_stands_above_the_schedules(tables: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    drawing = plot_learning_rate(tables[1], with_batches(tables[0]))
    drawing.draw_without_rendering()
    (axes,) = drawing.axes
    highest = max(axes.transData.transform((1, max(line.get_ydata())))[1] for line in axes.lines)
    assert axes.get_legend().get_window_extent().y0 > highest
    assert axes.get_xlim()[0] >= 0.5, "there is no epoch 0"


def test_each_schedule_is_drawn_once(tables: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    runs, epochs = with_batches(tables[0]), tables[1]
    (axes,) = plot_learning_rate(epochs, runs).axes
    assert len(axes.lines) == 2
    labels = [str(line.get_label()) for line in axes.lines]
    assert labels == ["cosmoflow_tiny, fp32, batch 32", "cosmoflow_tiny, fp32, batch 64"]
    small = epochs[epochs["ranks"] == 1].groupby("run_id")["learning_rate"].apply(list)
    assert list(axes.lines[0].get_ydata()) == max(small, key=len)


def test_the_legend_of_many_schedules_covers_none(tables: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    runs, epochs = with_batches(tables[0]), tables[1]
    sizes = range(1, 4)
    several = pd.concat(
        runs.assign(run_id=runs["run_id"] + str(size), global_batch_samples=runs["global_batch_samples"] * 4**size)
        for size in sizes
    )
    drawing = plot_learning_rate(pd.concat(epochs.assign(run_id=epochs["run_id"] + str(one)) for one in sizes), several)
    drawing.draw_without_rendering()
    (axes,) = drawing.axes
    batches = [int(str(line.get_label()).rsplit(" ", 1)[1]) for line in axes.lines]
    assert batches == sorted(batches)
    assert axes.get_legend().get_window_extent().x0 > axes.get_window_extent().x1


def test_a_campaigns_thousand_schedules_do_not_all_get_a_line(tables: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    runs, epochs = tables
    names = [f"v{number}" for number in range(MOST_LINES_NAMED + 3)]
    many = [one.assign(variant=name, run_id=name + one["run_id"]) for name in names for one in (epochs,)]
    own = [runs.assign(variant=name, run_id=name + runs["run_id"]) for name in names]
    (axes,) = plot_learning_rate(pd.concat(many), pd.concat(own)).axes
    words = [text.get_text() for text in axes.get_legend().get_texts()]
    assert len(words) == MOST_LINES_NAMED + 1
    assert words[-1].startswith("3 more")
