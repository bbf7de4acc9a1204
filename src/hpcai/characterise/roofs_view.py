"""Measured rates against the ceilings that should hold them."""

from collections.abc import Iterator, Mapping

import pandas as pd

from hpcai.characterise.views import join_views, records_of
from hpcai.config.machine import Machine
from hpcai.metrics.roofs import declared_peaks, find_inconsistencies, refuse_above_peak

DENSE = ("gemm", "convolution")
"""Kinds of ceilings that hold a training's rate: the better of the two."""


def inconsistencies_view(views: Mapping[str, pd.DataFrame], scales: pd.DataFrame, machine: Machine) -> pd.DataFrame:
    """Return every rate of the study that is above its roof, and every ceiling above a declared peak, which is no roof.

    Training rates stand under the best dense rate of their precision on as many cores as a rank has, times the ranks;
    allreduces under the best one that was measured with as many ranks; cold reads under the best cold read.

    Parameters
    ----------
    views
        At least work, communication, io and ceilings.
    scales
        Table of scales, which knows each variant's precision.
    machine
        Cores of each rank, and what is declared of its devices.
    """
    ceilings, refused = refuse_above_peak(views["ceilings"], declared_peaks(machine))
    samples = [*_training(views["work"], scales), *_exchanges(views["communication"]), *_reads(views["io"])]
    roofs = [*_dense_roofs(ceilings, scales, machine), *_other_roofs(ceilings, views["links"])]
    columns = ("what", "roof", "value", "unit", "source")
    found = find_inconsistencies(
        pd.DataFrame(samples, columns=list(columns)), pd.DataFrame(roofs, columns=list(columns))
    )
    return join_views("inconsistencies", [refused, found])


def _training(work: pd.DataFrame, scales: pd.DataFrame) -> Iterator[dict[str, object]]:
    precision = scales.set_index(["benchmark", "variant", "scale"])["precision"].to_dict()
    for row in records_of(work[work["method"] == "formula"]):
        key = (row["benchmark"], row["variant"], row["scale"])
        yield {
            "what": f"training rate of {', '.join(key)}",
            "roof": _dense(precision.get(key, "fp32"), int(row["ranks"])),
            "value": row["rate_flop_per_s"],
            "unit": "FLOP/s",
            "source": row["source"],
        }


def _dense(precision: str, ranks: int) -> str:
    return f"dense, {precision}, {ranks} ranks"


def _dense_roofs(ceilings: pd.DataFrame, scales: pd.DataFrame, machine: Machine) -> Iterator[dict[str, object]]:
    own = ceilings[ceilings["kind"].isin(DENSE) & (ceilings["threads"] == machine.cores_per_rank)]
    # TensorFlow multiplies fp32 in TF32 on accelerators that have it: the faster of the two holds the training.
    own = own.assign(precision=own["precision"].replace("tf32", "fp32")).dropna(subset=["value"])
    best = own.sort_values("value").drop_duplicates("precision", keep="last")
    for row in records_of(best):
        for ranks in sorted({int(count) for count in scales["ranks"]}):
            value = row["value"] * ranks
            yield {
                "what": "",
                "roof": _dense(row["precision"], ranks),
                "value": value,
                "unit": "FLOP/s",
                "source": row["source"],
            }


def _exchanges(communication: pd.DataFrame) -> Iterator[dict[str, object]]:
    for row in records_of(communication):
        yield {
            "what": f"allreduce of {row['benchmark']}, {row['variant']}, {row['scale']}",
            "roof": f"allreduce, {int(row['ranks'])} ranks",
            "value": row["bus_bandwidth_bytes_per_s"],
            "unit": "B/s",
            "source": row["source"],
        }


def _reads(io: pd.DataFrame) -> Iterator[dict[str, object]]:
    for row in records_of(io[io["page_cache"] == "cold"]):
        yield {
            "what": f"reading ({row['data']}) of {row['benchmark']}, {row['variant']}, {row['scale']}",
            "roof": "storage_read",
            "value": row["bandwidth_parallel_bytes_per_s"],
            "unit": "B/s",
            "source": row["source"],
        }


def _other_roofs(ceilings: pd.DataFrame, links: pd.DataFrame) -> Iterator[dict[str, object]]:
    for ranks, own in links.groupby("ranks"):
        fastest = (own["bus_bandwidth_bytes_per_s"] * own["time_s"] / own["time_min_s"]).max()
        roof = {"roof": f"allreduce, {ranks} ranks", "value": fastest, "unit": "B/s"}
        yield {"what": "", **roof, "source": own["source"].iloc[0]}
    for row in records_of(ceilings[ceilings["kind"] == "storage_read"].dropna(subset=["value"])):
        yield {"what": "", "roof": "storage_read", "value": row["value"], "unit": "B/s", "source": row["source"]}
