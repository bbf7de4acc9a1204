"""The figure of blocks and allreduces, predicted beside measured."""

import pandas as pd

from hpcai.plots.predictions.step_validation import NO_ALLREDUCE, NOTHING, plot_step_validation

BLOCKS = pd.DataFrame(
    {"kind": ["dense", "dense", "sparse"], "estimated_s": [1e-3, 2e-3, None], "time_s": [1.1e-3, 1.8e-3, 1e-5]}
)
KINDS = pd.DataFrame(
    {"left_out": ["networks"], "kind": ["dense"], "median_ape_ratio": [0.1], "weighted_error_ratio": [0.107]}
)
CALLS = pd.DataFrame(
    {
        "engine": "horovod", "scope": "node", "ranks": 2, "bytes": [1e3, 1e5, 1e7], "predicted_s": [1e-3, 1.2e-3, 1e-2],
        "measured_s": [1e-3, 1.1e-3, 2e-2], "relative_error_ratio": [0.0, 0.09, -0.5],
        "weighted_error_ratio": [0.0, 0.01, -1.4],
    }
)  # fmt: skip


def labels(figure):
    return " ".join(text.get_text() for legend in figure.legends for text in legend.get_texts())


def test_only_blocks_with_both_times_are_drawn_with_their_errors():
    figure = plot_step_validation(BLOCKS, KINDS, CALLS)
    left, right = figure.axes
    (dense,) = [line for line in left.get_lines() if line.get_gid() == "dense"]
    assert dense.get_ydata().tolist() == [1e-3, 2e-3]
    assert not [line for line in left.get_lines() if line.get_gid() == "sparse"]
    assert [line.get_gid() for line in right.get_lines()] == ["measured", "predicted"]
    assert "10 %" in labels(figure) or "10%" in labels(figure)


def test_what_is_missing_is_said():
    figure = plot_step_validation(BLOCKS, KINDS, CALLS.iloc[:0])
    assert NO_ALLREDUCE in " ".join(text.get_text() for text in figure.axes[1].texts).replace("\n", " ")
    empty = plot_step_validation(BLOCKS.iloc[:0], KINDS.iloc[:0], CALLS.iloc[:0])
    words = " ".join(text.get_text() for axes in empty.axes for text in axes.texts) + " ".join(
        text.get_text() for text in empty.texts
    )
    assert NOTHING in words.replace("\n", " ")
