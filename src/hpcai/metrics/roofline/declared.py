"""Published results under the HPC-AI roofline: points and ceilings from the declarations in a source's file."""

import pandas as pd

from hpcai.config.published import Published, PublishedLink, PublishedMachine, PublishedResult
from hpcai.metrics.cells import Row
from hpcai.metrics.roofline.ceilings import judge_ceilings
from hpcai.metrics.roofline.columns import (
    CEILING,
    CEILING_COLUMNS,
    INTRA_NODE,
    LINK,
    NETWORK,
    PEAK,
    POINT_COLUMNS,
    REFUSED,
    ROOF,
)
from hpcai.metrics.roofline.model import count_participants
from hpcai.metrics.roofline.placing import place_points
from hpcai.metrics.roofline.tables import GRADIENT_BYTES
from hpcai.metrics.scores.declared import DECLARED, declared_peak, declared_rate, identify

KERNEL = "kernel"
"""Kind of a ceiling that the source does not identify as GEMM or convolution."""


def declared_roofline(published: Published) -> pd.DataFrame:
    """Return the position of a file's results under the roofs of their declared machines.

    Parameters
    ----------
    published
        The file; a point needs precision, nodes, ranks, work of a step, parameters, a peak and a link.

    Returns
    -------
    pandas.DataFrame
        ``POINT_COLUMNS``, one row per result. Several nodes communicate over the network, each over its own link;
        ranks of one node use the links within it, counting one direction (performance_models.md, C.1). Results without
        a place have a reason.
    """
    rows = [_point(result, published) for result in published.results if result.use == "result"]
    return place_points(pd.DataFrame(rows, columns=list(POINT_COLUMNS)))


def _point(result: PublishedResult, published: Published) -> Row:
    """Return the roofline inputs of a result."""
    nodes, ranks = result.nodes, result.ranks
    row = {
        **identify(result, published),
        "rate_flop_per_s": declared_rate(result, published).flop_per_s,
        "source": published.cite(result.where),
    }
    if nodes is None or ranks is None:
        return {**row, "scope": NETWORK, "reason": "not placed: the source states no number of nodes and processes"}
    workload, machine = published.workloads[result.workload], published.machines[result.machine]
    scope, participants, link = _exchange(nodes, ranks, machine)
    row |= {"scope": scope, "participants": participants}
    if workload.flop_per_step is not None:
        row["flop_per_step"] = ranks * workload.flop_per_step
    if workload.parameters is not None:
        row["message_bytes"] = workload.parameters * GRADIENT_BYTES[result.compression or "none"]
        row["message_method"] = "modelled"
        unknown = "the source does not say whether gradients were compressed; assumed uncompressed"
        row["note"] = "" if result.compression else unknown
    peak, peak_source = declared_peak(result, published)
    row |= {"compute_roof_flop_per_s": peak, "compute_roof_name": f"peak {result.precision}, declared ({peak_source})"}
    if link is not None:
        row |= {"link_bytes_per_s": one_direction(link), "link_name": "link, declared", "link_method": DECLARED}
    return row


def _exchange(nodes: int, ranks: int, machine: PublishedMachine) -> tuple[str, int, PublishedLink | None]:
    """Return scope, participants and link of the exchange between some ranks."""
    scope, link = (NETWORK, machine.network) if nodes > 1 else (INTRA_NODE, machine.intra_node)
    return scope, count_participants(scope, nodes, ranks), link


def one_direction(link: PublishedLink) -> float:
    """Return the bandwidth of one direction of a link [bytes/s]: the attained one, if declared."""
    return link.measured_bytes_per_s or link.bandwidth_bytes_per_s / link.directions


def declared_ceilings(published: Published) -> pd.DataFrame:
    """Return the ceilings of a file's points: declared peaks, links and kernel rates of its machines.

    Returns
    -------
    pandas.DataFrame
        ``CEILING_COLUMNS``, for every number of nodes and ranks of a result. A kernel's rate on all nodes is the rate
        of one node times the nodes; a different printed rate is listed with it. Printed numbers have no noise, so any
        ceiling above the peak of its precision is refused.
    """
    rows: list[Row] = []
    for name, machine in published.machines.items():
        own = [result for result in published.results if result.machine == name and result.use == "result"]
        places = sorted({(each.nodes, each.ranks) for each in own if each.nodes and (each.ranks or 0) > 1})
        for nodes, ranks in places:
            rows += _ceilings_of(machine, int(nodes or 0), int(ranks or 0), {"machine": name})
    return pd.DataFrame(rows, columns=list(CEILING_COLUMNS))


def _ceilings_of(machine: PublishedMachine, nodes: int, ranks: int, base: Row) -> list[Row]:
    scope, participants, link = _exchange(nodes, ranks, machine)
    base = {**base, "scope": scope, "nodes": nodes, "ranks": ranks, "participants": participants, "method": DECLARED}
    rows = [
        {**base, "kind": PEAK, "name": f"peak {precision}", "precision": precision, "unit": "FLOP/s", "reason": ""}
        | {"value": peak.rate_flop_per_s * ranks, "status": ROOF, "source": peak.source}
        for precision, peak in machine.peaks.items()
    ]
    rows += _kernel_rows(machine, base)
    if link is not None:
        rows.append(
            {**base, "kind": LINK, "name": "link, declared", "precision": "", "unit": "B/s", "reason": ""}
            | {"value": one_direction(link), "status": ROOF, "source": link.source}
        )
    return rows


def _kernel_rows(machine: PublishedMachine, base: Row) -> list[Row]:
    """Return the kernels' rates for these nodes; those above the peak are marked as refused."""
    whole = base["ranks"] == base["nodes"] * (machine.devices_per_node or 0)
    values: list[Row] = []
    for ceiling in machine.ceilings if whole else ():
        made = {"precision": ceiling.precision, "source": ceiling.where, "name": ceiling.name.replace("_", " ")}
        value = ceiling.node_flop_per_s * base["nodes"]
        values.append({**made, "value": value, "backend": "node x nodes"})
        printed = [each for each in ceiling.printed if each.value is not None and base["nodes"] == ceiling.nodes]
        values += [{**made, "value": each.value, "backend": "as printed"} for each in printed if not each.consistent]
    if not values:
        return []
    frame = pd.DataFrame(values).assign(kind=KERNEL, unit="FLOP/s", threads=float(base["ranks"]))
    peaks = pd.DataFrame(
        [
            (KERNEL, precision, peak.rate_flop_per_s, "FLOP/s", peak.source, 1.0)
            for precision, peak in machine.peaks.items()
        ],
        columns=["kind", "precision", "value", "unit", "source", "threads"],
    )
    judged = judge_ceilings(frame, peaks, 0.0)
    return [
        {**base, "kind": KERNEL, "precision": row["precision"], "value": row["value"], "unit": "FLOP/s"}
        | {"name": f"{row['name']}, {row['backend']}", "source": row["source"], "reason": row["refused"]}
        | {"status": REFUSED if row["refused"] else CEILING}
        for row in judged.to_dict("records")
    ]
