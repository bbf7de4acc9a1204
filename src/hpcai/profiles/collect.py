"""Join the views of all profiles with the machine's ceilings and the rates of the timed runs."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from hpcai.catalogue.points import POINT
from hpcai.config.machine import Machine
from hpcai.core.disturbance import Tolerance
from hpcai.core.sealed import sealed_json
from hpcai.core.table_files import read_parquet
from hpcai.machine.ceilings.sampling import CeilingReport
from hpcai.metrics.profiles.advice import advise
from hpcai.metrics.profiles.link import AllreduceReport
from hpcai.metrics.quietness import judge_quiet
from hpcai.metrics.roofline.columns import REFUSED
from hpcai.profiles.ceilings_view import ceiling_rows, judge_rows
from hpcai.profiles.characterisation_table import characterisation_view
from hpcai.profiles.link_views import allreduce_ceiling, link_fit_rows, link_rows
from hpcai.profiles.roofs_view import inconsistencies_view
from hpcai.profiles.views import VIEWS, as_view, join_views
from hpcai.profiles.work_view import work_view
from hpcai.records.files import read_part

COUNTED = ("messages", "lanes", "kernel_names", "io_workers", "input_stages")
"""Views of many rows, of which the texts say the number only."""
Views = dict[str, pd.DataFrame]


@dataclass(frozen=True)
class Measured:
    """Files of all other measurements, and the table of timed scales.

    Attributes
    ----------
    ceilings, links, work
        Reports of ceilings, of allreduces, and of the benchmarks' work.
    scales
        Table of scales of the timed runs.
    machine
        The machine file.
    tolerance
        Maximum use by others for a machine to count as quiet.
    """

    ceilings: Sequence[str | Path]
    links: Sequence[str | Path]
    work: Sequence[str | Path]
    scales: pd.DataFrame
    machine: Machine
    tolerance: Tolerance


def collect_views(profiles: Mapping[str, Sequence[pd.DataFrame]], measured: Measured) -> Views:
    """Return all views of a study.

    Parameters
    ----------
    profiles
        The views of each kind of profile, by name; a view may come from several kinds.
    measured
        The other measurements.
    """
    views = {name: join_views(name, profiles.get(name, ())) for name in VIEWS}
    views["lanes"] = _fullest_lanes(views["lanes"])
    views["communication"] = _with_overlap(views["communication"], views["overlap"])
    views["io"] = _with_epochs(views["io"], measured.scales)
    views |= _machine_views(measured)
    views["work"] = work_view(measured.work, measured.scales, views["counters"])
    views["characterisation"] = characterisation_view(views)
    views["inconsistencies"] = inconsistencies_view(views, measured.scales, measured.machine)
    kernels = views["kernels"].merge(measured.scales[[*POINT, "precision"]], on=POINT, how="left")
    sound = views["ceilings"][views["ceilings"]["status"] != REFUSED]
    views |= {"advice": as_view("advice", advise({**views, "kernels": kernels, "ceilings": sound}))}
    return views


def read_views(files: Mapping[str, str | Sequence[str]]) -> dict[str, list[pd.DataFrame]]:
    """Return the tables in files by view name; a view may have several files."""
    return {
        name: [read_parquet(path) for path in ([paths] if isinstance(paths, str) else paths)]
        for name, paths in files.items()
    }


def summarise_views(views: Mapping[str, pd.DataFrame]) -> bytes:
    """Return the views for the report's texts as JSON with its digest: their rows, or only their number."""
    shown: dict[str, object] = {name: len(view) for name, view in views.items() if name in COUNTED}
    for name, view in views.items():
        if name not in COUNTED:
            shown[name] = json.loads(view.to_json(orient="records", double_precision=15))
    sources = views["lanes"][[*POINT, "run_id", "source"]].drop_duplicates()
    shown["lane_sources"] = sources.to_dict("records")
    return sealed_json(shown)


def _fullest_lanes(lanes: pd.DataFrame) -> pd.DataFrame:
    """Keep for each configuration the lanes that show computation, if any do."""
    computing = lanes.loc[lanes["lane"] == "computation", "source"].unique()
    richer = lanes[lanes["source"].isin(computing)]
    known = pd.MultiIndex.from_frame(richer[POINT])
    others = lanes[~pd.MultiIndex.from_frame(lanes[POINT]).isin(known)]
    return as_view("lanes", pd.concat([richer, others]))


def _with_overlap(communication: pd.DataFrame, overlap: pd.DataFrame) -> pd.DataFrame:
    """Fill in the overlap measured by the kernel profile of the same configuration."""
    known = overlap[[*POINT, "overlap_ratio", "source"]].rename(columns={"source": "overlap_source"})
    bare = communication.drop(columns=["overlap_ratio", "overlap_source"])
    joined = bare.merge(known.drop_duplicates(POINT), on=POINT, how="left")
    return as_view("communication", joined)


def _with_epochs(io: pd.DataFrame, scales: pd.DataFrame) -> pd.DataFrame:
    """Fill in the epoch time from the timed runs of the same configuration."""
    known = scales[[*POINT, "epoch_mean_s"]].rename(columns={"epoch_mean_s": "epoch_s"})
    joined = io.drop(columns="epoch_s").merge(known, on=POINT, how="left")
    share = joined["io_epoch_s"].astype(float) / joined["epoch_s"].astype(float)
    joined["io_share_ratio"] = share.mask(joined["data"] == "staging")  # happens once per run, not every epoch
    return as_view("io", joined)


def _machine_views(measured: Measured) -> Views:
    """Return the views of ceilings and links."""
    ceilings = [(read_part(CeilingReport, Path(path)), str(path)) for path in measured.ceilings]
    reports = [(read_part(AllreduceReport, Path(path)), str(path)) for path in measured.links]

    def rows(
        make: Callable[[Any, str], pd.DataFrame], report: CeilingReport | AllreduceReport, source: str
    ) -> pd.DataFrame:
        return make(report, source).assign(**asdict(judge_quiet(report.disturbance, measured.tolerance)))

    all_ceilings = [rows(ceiling_rows, *one) for one in ceilings] + [rows(allreduce_ceiling, *one) for one in reports]
    return {
        "ceilings": as_view("ceilings", judge_rows(join_views("ceilings", all_ceilings), measured.machine)),
        "links": join_views("links", [link_rows(*report) for report in reports]),
        "link_fits": join_views("link_fits", [rows(link_fit_rows, *report) for report in reports]),
    }
