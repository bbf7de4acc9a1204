"""Two engines at the same point make two groups in every table, each with its own base."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from unit.metrics.roofline_samples import make_cluster, make_views
from unit.metrics.roofline_samples import make_runs as make_roofline_runs
from unit.metrics.roofline_samples import make_scores as make_roofline_scores
from unit.record_factory import make_study, write_records
from unit.score_factory import make_work

from hpcai.catalogue.points import POINT, SERIES
from hpcai.catalogue.tables import columns_of, tables
from hpcai.metrics.roofline.ceilings import roofline_ceilings
from hpcai.metrics.roofline.columns import LINK
from hpcai.metrics.roofline.tables import roofline_points
from hpcai.metrics.run_tables import collect_epochs, collect_runs, run_tables, write_tables
from hpcai.metrics.scaling.details import detail_scales
from hpcai.metrics.scaling.efficiency import compute_scaling
from hpcai.metrics.scaling.fits import fit_scaling, trace_scaling
from hpcai.metrics.scaling.scales import summarise_scales
from hpcai.metrics.scaling.trials import mark_extremes
from hpcai.metrics.scores.result_scores import score_scales
from hpcai.metrics.scores.trial_scores import score_trials
from hpcai.profiles.views import as_view

ENGINES = {"horovod": (1, 2, 4), "tensorflow": (2, 4)}
SLOWER = 3.0
"""The tensorflow runs take this many times as long."""


def study_of(engine: str, folder: Path) -> pd.DataFrame:
    """Return the run table of a study whose runs all have one engine."""
    records = make_study(ranks=ENGINES[engine], repeats=2, settings_of_point={"engine": engine})
    return collect_runs(write_records(records, folder / engine))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    """Two studies that differ in the engine alone, in one table."""
    folder = tmp_path_factory.mktemp("engines")
    horovod, slow = (study_of(engine, folder) for engine in ENGINES)
    slow = slow.assign(
        run_id="again/" + slow["run_id"],
        train_rate_samples_per_s=slow["train_rate_samples_per_s"] / SLOWER,
        time_to_train_s=slow["time_to_train_s"] * SLOWER,
    )
    return pd.concat([horovod, slow], ignore_index=True)


def test_every_table_that_tells_variants_apart_tells_engines_apart() -> None:
    others = {"efficiency", "variant_effects"}  # jobs have the name of their run; effects name the engine as a change
    ours = {name: set(columns_of(name)) for name in tables()}
    lacking = {name for name, own in ours.items() if {"benchmark", "variant"} <= own and "engine" not in own}
    assert lacking <= others
    assert all("engine" in ours[name] for name in ("links", "link_fits", "step_accuracy"))


def test_records_bring_their_engine_into_the_tables(tmp_path: Path) -> None:
    records = make_study(ranks=(1,), repeats=1, settings_of_point={"engine": "tensorflow"})
    paths = write_records(records, tmp_path)
    for table in (collect_runs(paths), collect_epochs(paths)):
        assert set(table["engine"]) == {"tensorflow"}


def test_no_row_mixes_engines(runs: pd.DataFrame) -> None:
    scales = summarise_scales(runs)
    assert len(scales) == sum(len(ranks) for ranks in ENGINES.values())
    assert not scales.duplicated(POINT).any()
    assert (scales["n"] == 2).all()
    rates = scales.set_index(["engine", "scale"])["train_rate_samples_per_s"]
    assert rates["horovod"]["n1x2"] == pytest.approx(SLOWER * rates["tensorflow"]["n1x2"])


def test_efficiency_is_against_the_base_of_the_same_engine(runs: pd.DataFrame) -> None:
    points = compute_scaling(runs)
    assert points.groupby("engine")["baseline"].unique().str[0].to_dict() == {"horovod": "n1x1", "tensorflow": "n1x2"}
    base = points[points["scale"] == points["baseline"]]
    assert (base["efficiency_ratio"] == 1).all()
    scales = summarise_scales(runs).set_index(["engine", "scale"])
    own = scales.loc[("tensorflow", "n1x4")]
    assert own["train_rate_ideal_samples_per_s"] == pytest.approx(
        2 * scales.loc[("tensorflow", "n1x2"), "train_rate_samples_per_s"]
    )


def test_laws_and_details_are_of_one_engine(runs: pd.DataFrame) -> None:
    fits = fit_scaling(runs)
    assert fits.groupby("engine")["ranks_min"].min().to_dict() == {"horovod": 1, "tensorflow": 2}
    assert set(trace_scaling(runs)["engine"]) == set(ENGINES)
    nothing = pd.DataFrame()
    details = detail_scales(summarise_scales(runs), nothing, nothing, nothing, nothing, make_cluster())
    assert details.groupby("engine")["baseline"].unique().str[0].to_dict() == {
        "horovod": "n1x1", "tensorflow": "n1x2",
    }  # fmt: skip


def test_extremes_are_dropped_within_an_engine(runs: pd.DataFrame) -> None:
    alone = runs[runs["engine"] == "horovod"]
    marks = mark_extremes(runs)
    assert list(marks[alone.index]) == list(mark_extremes(alone))


def test_scores_are_of_one_engine(runs: pd.DataFrame) -> None:
    scales = summarise_scales(runs)
    trials = score_trials(runs, make_work(runs), as_view("power", []))
    scores = score_scales(trials, runs, scales, dict.fromkeys(runs["benchmark"], "made up"))
    assert not scores.duplicated(POINT).any()
    assert scores["result"].is_unique
    rates = scores.set_index(["engine", "scale"])["rate_flop_per_s"]
    assert rates["horovod"]["n1x2"] == pytest.approx(SLOWER * rates["tensorflow"]["n1x2"])


def both_links(links: pd.DataFrame) -> pd.DataFrame:
    """Return measured allreduces of both engines, of which the second's take four times as long."""
    slow: dict[str, Any] = {name: 4 * links[name] for name in ("time_s", "time_min_s")}
    return pd.concat([links, links.assign(engine="tensorflow", **slow)], ignore_index=True)


def test_a_point_stands_under_the_link_of_its_engine() -> None:
    views = make_views(counted=False)
    views["links"] = both_links(views["links"])
    scores = make_roofline_scores(((1, 8),))
    scores = pd.concat([scores, scores.assign(engine="tensorflow")], ignore_index=True)
    machine = make_cluster()
    ceilings = roofline_ceilings(scores, views["ceilings"], views["links"], views["link_fits"], machine)
    runs = make_roofline_runs(scores)
    points = roofline_points(scores, ceilings, views, runs, machine)
    inside = points[points["scope"] == "intra_node"].set_index([*SERIES[:2], "engine"])["link_bytes_per_s"]
    names = {key[:2] for key in inside.index}
    assert names
    for key in names:
        assert inside[(*key, "horovod")] == pytest.approx(4 * inside[(*key, "tensorflow")])
    links = ceilings[
        (ceilings["kind"] == LINK) & (ceilings["scope"] == "intra_node") & (ceilings["method"] == "measured")
    ]
    assert list(links["name"].drop_duplicates().sort_values()) == [
        "allreduce, transfer", "allreduce, transfer, tensorflow",
    ]  # fmt: skip


def test_the_tables_can_be_written(tmp_path: Path) -> None:
    """They have the declared columns in the declared order."""
    records = make_study(ranks=(1, 2), repeats=1, settings_of_point={"engine": "tensorflow"})
    write_tables(run_tables([*map(str, write_records(records, tmp_path / "runs"))]), tmp_path / "tables")
    assert set(pd.read_parquet(tmp_path / "tables/scales.parquet")["engine"]) == {"tensorflow"}
