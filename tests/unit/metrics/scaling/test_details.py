"""Scales with their limits: numbers come from the right rows, and missing ones have a reason."""

import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from unit.record_factory import make_machine, make_study, write_records
from unit.view_factory import make_link_fits, make_links, make_point, make_rows

from hpcai.metrics.roofline.links import link_rate
from hpcai.metrics.roofline.model import ring_traffic
from hpcai.metrics.run_tables import collect_runs, summarise_scales
from hpcai.metrics.scaling.details import DETAIL_COLUMNS, NOT_PROFILED, ONE_RANK, detail_scales
from hpcai.metrics.scores.columns import SCORE_COLUMNS

LINKS = {
    "intra_node": {"bandwidth_bytes_per_s": "10 GB/s", "source": "data sheet of the node"},
    "network": {"bandwidth_bytes_per_s": "1 GB/s", "source": "data sheet of the switch"},
}
NOTHING = pd.DataFrame()


@pytest.fixture(scope="module")
def scales(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    records = [*make_study(ranks=(1, 2, 4), repeats=2), *make_study(ranks=(4,), repeats=2, nodes=2)]
    return summarise_scales(collect_runs(write_records(records, tmp_path_factory.mktemp("scales"))))


def make_communication(ranks: int = 2, bytes_mean: float = 2.0**20, **values: Any) -> pd.DataFrame:
    point = make_point("cosmoflow_tiny", ranks)
    numbers = {"communication_share_ratio": 0.3, "batch_bytes_mean": bytes_mean, "bus_bandwidth_bytes_per_s": 5e8,
               "reasons": ""}  # fmt: skip
    return make_rows("communication", point, **{**numbers, **values})


def make_scores(vflops: dict[str, float], **columns: Any) -> pd.DataFrame:
    rows = [
        {"method": "measured", "benchmark": "cosmoflow_tiny", "variant": "fp32", "engine": "horovod", "scale": scale,
         "rate_flop_per_s": 2 * rate, "vflops_flop_per_s": rate, "reason": "", "source": "results/runs", **columns}
        for scale, rate in vflops.items()
    ]  # fmt: skip
    return pd.DataFrame(rows).reindex(columns=list(SCORE_COLUMNS))


def detail(scales: pd.DataFrame, **changes: Any) -> pd.DataFrame:
    given = {
        "scores": NOTHING,
        "communication": NOTHING,
        "links": NOTHING,
        "link_fits": NOTHING,
        "machine": make_machine(links=LINKS),
    }
    return detail_scales(scales, **{**given, **changes}).set_index("scale")


def test_one_row_for_each_scale(scales: pd.DataFrame) -> None:
    rows = detail(scales)
    assert [*rows.index] == ["n1x1", "n1x2", "n1x4", "n2x4"]
    assert sorted([*rows.columns, "scale"]) == sorted(DETAIL_COLUMNS)
    assert (rows["regime"] == "strong").all()
    assert (rows["baseline"] == "n1x1").all()
    expected = scales.set_index("scale")
    assert rows["efficiency_ratio"].tolist() == expected["train_rate_efficiency_ratio"].tolist()
    assert rows["train_rate_samples_per_s"].tolist() == expected["train_rate_samples_per_s"].tolist()
    assert (rows["samples_per_rank"] * rows["ranks"] == rows["global_batch_samples"]).all()


def test_what_is_missing_has_its_reason(scales: pd.DataFrame) -> None:
    rows = detail(scales)
    assert rows["rate_flop_per_s"].isna().all()
    assert (rows["score_reason"] != "").all()
    assert rows.loc["n1x1", "communication_reason"] == ONE_RANK
    assert rows.loc["n1x2", "communication_reason"] == NOT_PROFILED
    assert rows.loc["n1x2", "bandwidth_reason"] == NOT_PROFILED
    assert rows["communication_share_ratio"].isna().all()
    assert rows["bandwidth_used_ratio"].isna().all()
    assert math.isnan(rows.loc["n1x1", "bandwidth_declared_bytes_per_s"])


def test_scores_and_their_efficiency(scales: pd.DataFrame) -> None:
    measured = make_scores({"n1x1": 100.0, "n1x2": 150.0})
    declared = make_scores({"n1x4": 7.0}, method="declared")
    rows = detail(scales, scores=pd.concat([measured, declared]))
    assert rows.loc["n1x2", "vflops_efficiency_ratio"] == pytest.approx(0.75)
    assert rows.loc["n1x1", "vflops_efficiency_ratio"] == 1
    assert rows.loc["n1x2", "rate_flop_per_s"] == 300
    assert rows.loc["n1x2", "score_source"] == "results/runs"
    assert math.isnan(rows.loc["n1x4", "rate_flop_per_s"])
    zero = detail(scales, scores=make_scores({"n1x1": 0.0, "n1x2": 150.0}))
    assert math.isnan(zero.loc["n1x2", "vflops_efficiency_ratio"])


def test_bandwidth_against_the_measured_allreduce(scales: pd.DataFrame) -> None:
    links = make_links((2, 4))
    both = pd.concat([make_communication(), make_communication(communication_share_ratio=0.4)])
    row = detail(scales, communication=both, links=links, link_fits=make_link_fits((2, 4))).loc["n1x2"]
    at_size = links[(links["what"] == "transfer") & (links["ranks"] == 2) & (links["bytes"] == 2.0**20)].iloc[0]
    assert row["bandwidth_measured_bytes_per_s"] == pytest.approx(2.0**20 / at_size["time_min_s"])
    assert row["bandwidth_used_ratio"] == pytest.approx(5e8 / row["bandwidth_measured_bytes_per_s"])
    assert (row["bandwidth_used_of"], row["bandwidth_measured_method"]) == ("measured", "measured")
    assert row["communication_share_ratio"] == pytest.approx(0.35)
    assert row["communication_n"] == 2
    assert row["communication_source"].endswith("timeline.json")
    assert row["bandwidth_measured_source"] == "results/characterise/allreduce.json"


def test_message_beyond_the_measured_sizes_uses_the_fitted_line(scales: pd.DataFrame) -> None:
    message = 2.0**30
    tables = {"links": make_links((2,)), "link_fits": make_link_fits((2,))}
    row = detail(scales, communication=make_communication(bytes_mean=message), **tables).loc["n1x2"]
    fit = tables["link_fits"].query("what == 'transfer'").iloc[0]
    expected = message / (fit["latency_s"] + message / fit["bandwidth_bytes_per_s"])
    assert row["bandwidth_measured_bytes_per_s"] == pytest.approx(expected)
    assert row["bandwidth_measured_method"].startswith("modelled")


def test_declared_link_stands_in_where_none_was_measured(scales: pd.DataFrame) -> None:
    row = detail(scales, communication=make_communication(4)).loc["n1x4"]
    assert (row["bandwidth_used_of"], row["bandwidth_declared_bytes_per_s"]) == ("declared", 10e9)
    assert row["bandwidth_used_ratio"] == pytest.approx(5e8 / 10e9)
    assert row["bandwidth_declared_source"] == "data sheet of the node"
    undeclared = detail(scales, communication=make_communication(4), machine=make_machine()).loc["n1x4"]
    assert math.isnan(undeclared["bandwidth_used_ratio"])
    assert "no allreduce of 4 ranks" in undeclared["bandwidth_reason"]
    assert "links.intra_node" in undeclared["bandwidth_reason"]


def test_several_nodes_use_the_network(scales: pd.DataFrame) -> None:
    """Traffic among the ranks of one node gives no information about the network."""
    point = {**make_point("cosmoflow_tiny", 8), "scale": "n2x4", "nodes": 2}
    found = make_communication().assign(**point)
    row = detail(scales, communication=found, links=make_links((8,)), link_fits=make_link_fits((8,))).loc["n2x4"]
    assert (row["bandwidth_used_of"], row["bandwidth_declared_bytes_per_s"]) == ("declared", 1e9)
    assert math.isnan(row["bandwidth_measured_bytes_per_s"])


def test_timeline_that_does_not_tell(scales: pd.DataFrame) -> None:
    blank = make_communication(communication_share_ratio=math.nan, bus_bandwidth_bytes_per_s=math.nan,
                               reasons="the steps are not marked")  # fmt: skip
    row = detail(scales, communication=blank).loc["n1x2"]
    assert row["communication_reason"] == row["bandwidth_reason"] == "the steps are not marked"


def test_no_scales(tmp_path: Path) -> None:
    rows = detail_scales(summarise_scales(collect_runs([])), NOTHING, NOTHING, NOTHING, NOTHING, make_machine())
    assert rows.empty
    assert list(rows.columns) == list(DETAIL_COLUMNS)


def test_a_node_sends_over_the_network_what_the_roofline_says(scales: pd.DataFrame) -> None:
    """The same traffic of a participant in both: 2 (p - 1) / p of the message for 2 nodes, not for their 8 ranks."""
    scale = {**make_point("cosmoflow_tiny", 8), "scale": "n2x4", "nodes": 2}
    size, algorithm = 2.0**20, 4e8
    found = make_communication(bus_bandwidth_bytes_per_s=2 * 7 / 8 * algorithm).assign(**scale)
    links = make_links((8,)).assign(scope="network")
    row = detail(scales, communication=found, links=links).loc["n2x4"]
    assert row["bandwidth_used_bytes_per_s"] == pytest.approx(ring_traffic(algorithm, 2))
    time_s = links[(links["what"] == "transfer") & (links["bytes"] == size)]["time_min_s"].iloc[0]
    assert row["bandwidth_measured_bytes_per_s"] == pytest.approx(ring_traffic(size, 2) / time_s)
    roof = link_rate(links[links["bytes"] == size], NOTHING, "network", 2, 8, size).rate_bytes_per_s
    assert row["bandwidth_measured_bytes_per_s"] == pytest.approx(roof)
    assert row["bandwidth_used_ratio"] == pytest.approx(algorithm * time_s / size)
    declared = detail(scales, communication=found).loc["n2x4"]
    assert declared["bandwidth_used_ratio"] == pytest.approx(ring_traffic(algorithm, 2) / 1e9)


def test_within_a_node_ranks_are_the_participants(scales: pd.DataFrame) -> None:
    row = detail(scales, communication=make_communication(4)).loc["n1x4"]
    assert row["bandwidth_used_bytes_per_s"] == pytest.approx(5e8)
