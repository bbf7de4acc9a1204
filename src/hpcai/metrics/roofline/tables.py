"""Inputs of the rooflines from the tables of a study: participants, traffic and roofs."""

import math
from collections.abc import Mapping

import pandas as pd

from hpcai.catalogue.points import POINT, SERIES
from hpcai.catalogue.tables import common_columns
from hpcai.config.machine import Machine
from hpcai.core.messages import Message
from hpcai.metrics.cells import Row, join_words, number_of, records_of, text_of
from hpcai.metrics.profiles.counters import counting_doubts
from hpcai.metrics.profiles.link import of_engine
from hpcai.metrics.roofline.ceilings import WORDS, declared_link
from hpcai.metrics.roofline.columns import INTRA_NODE, MEMORY, NETWORK, NOT_MEASURED, POINT_COLUMNS, ROOF
from hpcai.metrics.roofline.links import link_rate
from hpcai.metrics.roofline.model import count_participants
from hpcai.metrics.roofline.placing import place_points
from hpcai.metrics.roofline.samples_above import TOLERANCE_RATIO

PARTS_SHARED = Message(
    "tables.parts_shared", "planes and rows that {parts} ranks of a replica exchange, modelled from the shapes"
)

GRADIENT_BYTES = {"none": 4, "fp16": 2}
"""Bytes sent per parameter's gradient: single precision, or Horovod's half-precision compression."""
FROM_SCORES = common_columns("scores", "roofline_points", "reason", "source")
NO_REUSE = "traffic of the compiled step, without cache reuse between its operations"
Views = Mapping[str, pd.DataFrame]


def roofline_points(
    scores: pd.DataFrame, ceilings: pd.DataFrame, views: Views, runs: pd.DataFrame, machine: Machine
) -> pd.DataFrame:
    """Return the position of every result under its roofs, in each scope.

    Parameters
    ----------
    scores
        Results (``SCORE_COLUMNS``).
    ceilings
        :func:`hpcai.metrics.roofline.ceilings.roofline_ceilings` of the same scores.
    views
        ``communication`` (bytes per step, counted), ``links`` and ``link_fits``, ``counters`` and ``work`` (memory
        traffic, measured or modelled); a missing view counts as empty.
    runs
        The run table, for the parameters of each benchmark and variant.
    machine
        The machine that the views describe.

    Returns
    -------
    pandas.DataFrame
        ``POINT_COLUMNS``, three rows per result. Results of other machines are not placed: their traffic and roofs are
        unknown here (declared results: :func:`place_points` with the declarations of their file).
    """
    rows = []
    for score in records_of(scores):
        base = {name: score.get(name) for name in FROM_SCORES}
        base |= {"flop_per_step": number_of(score, "flop_per_sample") * number_of(score, "global_batch_samples")}
        scopes = (INTRA_NODE, NETWORK, MEMORY)
        rows += [{**base, **_input(score, scope, ceilings, views, runs, machine)} for scope in scopes]
    return place_points(pd.DataFrame(rows, columns=list(POINT_COLUMNS)))


def _input(score: Row, scope: str, ceilings: pd.DataFrame, views: Views, runs: pd.DataFrame, machine: Machine) -> Row:
    """Return a result's inputs for a scope: participants, traffic and roofs, or the reason why it has no place."""
    nodes, ranks = (int(score[name]) if number_of(score, name) > 0 else 0 for name in ("nodes", "ranks"))
    row: Row = {
        "scope": scope,
        "participants": count_participants(scope, nodes, ranks),
        "source": text_of(score["source"]),
    }
    if score["method"] != "measured" or score["machine"] != machine.name:
        return {**row, "reason": "not placed: its communication and the roofs of its machine are not known here"}
    if scope != MEMORY and ranks > 1 and (nodes > 1) != (scope == NETWORK):
        where = f"{nodes} nodes exchange over the network" if nodes > 1 else "one node exchanges nothing over a network"
        return {**row, "reason": f"not placed: {where}"}
    own = ceilings[(ceilings["scope"] == scope) & (ceilings["nodes"] == nodes) & (ceilings["ranks"] == ranks)]
    roofs = own[own["status"] == ROOF]
    row |= _compute_roof(own, text_of(score["precision"]), row)
    if scope == MEMORY:
        return {**row, **_memory(score, roofs, views, row)}
    if ranks == 1:
        return row
    row |= _message(score, views.get("communication"), runs, row)
    row |= _parts(score, runs, row)
    own_views = {
        name: of_engine(view, score["engine"]) for name, view in views.items() if name in ("links", "link_fits")
    }
    return {**row, **_link(row, (nodes, ranks), own_views, machine)}


def _compute_roof(ceilings: pd.DataFrame, precision: str, row: Row) -> Row:
    """Return the roof of a precision; without one, its name explains why nothing was measured."""
    known = ceilings[ceilings["kind"].isin(list(WORDS)) & (ceilings["precision"] == precision)]
    found = known[known["status"] == ROOF]
    if found.empty:
        missing = known.loc[known["status"] == NOT_MEASURED, "reason"]
        why = join_words(*(text for text in missing if text != NOT_MEASURED), separator="; ")
        return {"compute_roof_name": f"{NOT_MEASURED}: {why}" if why else ""}
    best = records_of(found)[0]
    name = ", ".join(part for part in (f"{best['name']}, {best['method']}", text_of(best["reason"])) if part)
    return {
        "compute_roof_flop_per_s": best["value"],
        "compute_roof_name": name,
        "source": join_words(row["source"], best["source"] if best["method"] == "measured" else ""),
    }


def _message(score: Row, communication: pd.DataFrame | None, runs: pd.DataFrame, row: Row) -> Row:
    """Return the bytes reduced per step: counted at the same point, otherwise modelled from the parameters."""
    own = _same_point(communication, score)
    counted = own["bytes_per_step"].mean() if len(own) else math.nan
    if counted > 0:
        return {
            "message_bytes": float(counted),
            "message_method": "counted",
            "source": join_words(row["source"], *own["source"]),
        }
    same = runs[(runs[SERIES] == [score[name] for name in SERIES]).all(axis=1)]
    parameters = same["parameters"].dropna()
    width = GRADIENT_BYTES.get(text_of(score["compression"]))
    if parameters.empty or width is None:
        return {}
    note = f"{parameters.iloc[0]:.0f} parameters of {width} bytes: no timeline of this point"
    return {"message_bytes": float(parameters.iloc[0]) * width, "message_method": "modelled", "note": note}


def _parts(score: Row, runs: pd.DataFrame, row: Row) -> Row:
    """Return the bytes that a participant sends because ranks share samples; over a network, those that leave a node.

    A replica within one node sends nothing over the network. Otherwise a node sends at most what its ranks send whose
    replicas lie on other nodes, too.
    """
    own = _same_point(runs, score) if "part_bytes" in runs else runs.iloc[:0]
    sent = own[own["part_bytes"] > 0] if len(own) else own
    if sent.empty:
        return {}
    first = records_of(sent)[0]
    parts, most, senders = int(first["spatial_parts"]), "", 1
    if row["scope"] == NETWORK:
        most, senders = "; at most, of a node", _most_senders(int(first["ranks_per_node"]), parts)
    if senders == 0:
        return {"part_bytes": 0.0}
    return {
        "part_bytes": senders * float(first["part_bytes"]),
        "note": join_words(row.get("note", ""), f"{PARTS_SHARED(parts=parts)}{most}", separator="; "),
    }


def _most_senders(ranks_per_node: int, parts: int) -> int:
    """Return how many ranks of a node share samples with other nodes, on the node that has most of them."""
    nodes = [range(node * ranks_per_node, (node + 1) * ranks_per_node) for node in range(parts)]  # then they repeat
    replicas = [[rank // parts * parts for rank in node] for node in nodes]
    return max(
        sum(first < node.start or first + parts > node.stop for first in firsts)
        for node, firsts in zip(nodes, replicas, strict=True)
    )


def _link(row: Row, counts: tuple[int, int], views: Views, machine: Machine) -> Row:
    """Return the link bandwidth for the point's message: measured or, if that is missing or above it, declared."""
    nodes, ranks = counts
    message = number_of(row, "message_bytes")
    if math.isnan(message):
        return {}
    declared = declared_link(machine, row["scope"])
    links, fits = (views.get(name, pd.DataFrame()) for name in ("links", "link_fits"))
    found = link_rate(links, fits, row["scope"], nodes, ranks, message)
    limit = declared.bandwidth_bytes_per_s if declared else math.inf
    if found.rate_bytes_per_s <= (1 + TOLERANCE_RATIO) * limit:
        return {
            "link_bytes_per_s": found.rate_bytes_per_s,
            "link_name": found.name,
            "link_method": "measured",
            "note": join_words(row.get("note", ""), found.note, separator="; "),
            "source": join_words(row["source"], found.source),
        }
    if declared is None:
        return {}
    above = "" if math.isnan(found.rate_bytes_per_s) else "the measured link is above the declared one and not used"
    return {
        "link_bytes_per_s": limit,
        "link_name": f"link, {declared.source}",
        "link_method": "declared",
        "note": join_words(row.get("note", ""), above, separator="; "),
    }


def _memory(score: Row, roofs: pd.DataFrame, views: Views, row: Row) -> Row:
    """Return the intensity over memory traffic, and the bandwidth of memory as its link."""
    found = _intensity(score, views, row)
    for best in records_of(roofs[roofs["kind"] == MEMORY]):
        found |= {"link_bytes_per_s": best["value"], "link_name": best["name"], "link_method": best["method"]}
        found["note"] = join_words(found.get("note", ""), text_of(best["reason"]), separator="; ")
        if best["method"] == "measured":
            found["source"] = join_words(found.get("source", row["source"]), best["source"])
    return found


def _intensity(score: Row, views: Views, row: Row) -> Row:
    """Return the intensity over memory traffic, measured by hardware counters or modelled from the compiled step.

    It is the work of the score over the bytes of a sample. The counters' own work is no dividend: those of processors
    miss what is computed in half precision.
    """
    counted = records_of(_with_traffic(_same_point(views.get("counters"), score)))
    known = counted or records_of(_with_traffic(_same_point(views.get("work"), score)))
    if not known:
        return {}
    best = known[0]
    method = "measured" if counted else text_of(best.get("memory_method")) or "modelled"
    said = counting_doubts(best) if counted else (text_of(best.get("reason")),)
    return {
        "intensity_flop_per_byte": number_of(score, "flop_per_sample") / float(best["memory_bytes_per_sample"]),
        "message_method": method,
        "source": join_words(row["source"], best["source"]),
        "note": join_words(NO_REUSE if method == "modelled" else "", *said, separator="; "),
    }


def _with_traffic(work: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with memory traffic, measured ones first."""
    if "memory_bytes_per_sample" not in work:
        return pd.DataFrame()
    known = work[work["memory_bytes_per_sample"] > 0]
    methods = known.get("memory_method", pd.Series("", index=known.index))
    return known.assign(measured=methods == "measured").sort_values("measured", ascending=False, kind="stable")


def _same_point(view: pd.DataFrame | None, score: Row) -> pd.DataFrame:
    if view is None or view.empty:
        return pd.DataFrame()
    own = pd.Series(True, index=view.index)
    for name in POINT:
        own &= view[name] == score[name]
    return view[own]
