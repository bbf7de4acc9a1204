"""Rates of runs under the roofs that bound them."""

from typing import Any

import pandas as pd
import pytest
from unit.record_factory import make_machine
from unit.view_factory import make_point

from hpcai.metrics.roofline.samples_above import ABOVE_ROOF
from hpcai.profiles.roofs_view import inconsistencies_view
from hpcai.profiles.views import VIEWS, as_view

SCALES = pd.DataFrame(
    [{"benchmark": "b", "variant": "v", "engine": "horovod", "scale": "n1x2", "ranks": 2, "precision": "fp32"}]
)
LATENCY_S, BYTES_PER_S = 1e-4, 1e9


def find(**rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Return the inconsistencies of a study with these view rows."""
    views = {name: as_view(name, rows.get(name, [])) for name in VIEWS}
    return inconsistencies_view(views, SCALES, make_machine())


def read(data: str, rate: float, page_cache: str = "cold", **point: Any) -> dict[str, Any]:
    known = {"data": data, "page_cache": page_cache, "bandwidth_parallel_bytes_per_s": rate}
    return {**make_point(**point), **known}


def storage(**rates: float) -> list[dict[str, Any]]:
    known = {"kind": "storage_read", "unit": "B/s"}
    return [
        {**known, "place": place.replace("_", "-"), "value": rate, "source": f"{place}.json"}
        for place, rate in rates.items()
    ]


FAST_LOCAL = storage(node_local=3e9, shared=2e8)


@pytest.mark.parametrize("data", ["staging", "training input"])
def test_shared_storage_is_no_faster_because_local_storage_is(data):
    found = find(io=[read(data, 1e9)], ceilings=FAST_LOCAL)
    (sentence,) = found["sentence"]
    above = ABOVE_ROOF.find_in(sentence)
    assert above["ratio"] == "5"
    assert (above["roof"], above["roof_source"]) == ("storage_read, shared with 200 MB/s", "shared.json")
    assert find(io=[read(data, 1.9e8)], ceilings=FAST_LOCAL).empty


def test_staged_input_is_held_by_local_storage():
    staging = read("staging", 1e8)
    assert find(io=[staging, read("training input", 1e9)], ceilings=FAST_LOCAL).empty
    found = find(io=[staging, read("training input", 4e9)], ceilings=FAST_LOCAL)
    assert "node-local" in found["sentence"][0]
    # Another run's staging does not concern this one.
    assert len(find(io=[staging, read("training input", 1e9, ranks=4)], ceilings=FAST_LOCAL)) == 1


def test_what_came_from_memory_is_not_compared():
    staged = [read("staging", 1e8), read("training input", 9e9, "warm")]
    assert find(io=staged, ceilings=FAST_LOCAL).empty
    assert find(io=[read("training input", 9e9, "unknown")], ceilings=FAST_LOCAL).empty


def test_storage_that_was_not_measured_is_no_roof():
    assert find(io=[read("staging", 1e9)], ceilings=storage(node_local=1e6)).empty
    assert find(io=[read("staging", 1e9)], ceilings=storage(shared=float("nan"))).empty


def link(what: str = "transfer", scope: str = "node", ranks: int = 2, engine: str = "horovod") -> list[dict[str, Any]]:
    """Return an allreduce whose fastest repetition follows latency and bandwidth; the median takes twice as long."""
    rows = []
    for size in (4.0**power for power in range(1, 14)):
        best_s = LATENCY_S + size / BYTES_PER_S
        times = {"time_min_s": best_s, "time_s": 2 * best_s, "time_max_s": 3 * best_s, "n": 9}
        rows.append(
            {
                "what": what,
                "engine": engine,
                "scope": scope,
                "ranks": ranks,
                "bytes": size,
                **times,
                "source": "link.json",
            }
        )
    return rows


def exchange(rate: float, size: float = 4.0**6, **changes: Any) -> dict[str, Any]:
    known = {"batch_bytes_mean": size, "algorithm_bandwidth_bytes_per_s": rate, "bus_bandwidth_bytes_per_s": 9e99}
    return {**make_point(), **known, **changes}


def reaches(size: float) -> float:
    return size / (LATENCY_S + size / BYTES_PER_S)


def test_an_exchange_is_held_by_the_link_at_its_own_size():
    size = 4.0**6
    above = exchange(1.2 * reaches(size))  # far below the rate of large messages
    (row,) = find(communication=[above], links=link()).to_dict("records")
    assert row["what"] == "allreduce of cosmoflow_tiny, fp32, n1x2"
    assert row["ratio"] == pytest.approx(1.2)
    for words in ("transfer of 4 KiB between 2 ranks (n1x2)", "link.json", "10 % above cannot be noise"):
        assert words in row["sentence"]
    assert find(communication=[exchange(1.09 * reaches(size))], links=link()).empty


@pytest.mark.parametrize(
    "links",
    [[], link("call"), link(ranks=4), link(scope="network"), link(engine="tensorflow")],
    ids=["none", "calls", "ranks", "scope", "engine"],
)
def test_without_a_measured_transfer_of_its_kind_an_exchange_has_no_roof(links):
    assert find(communication=[exchange(9e99)], links=links).empty


@pytest.mark.parametrize("size", [1.0, 4.0**14, float("nan")])
def test_outside_of_the_measured_sizes_there_is_no_roof(size):
    assert find(communication=[exchange(9e99, size)], links=link()).empty


def test_links_without_a_kind_are_no_roof():
    views = {name: as_view(name, []) for name in VIEWS} | {"communication": as_view("communication", [exchange(9e99)])}
    views["links"] = as_view("links", link()).drop(columns="what")
    assert inconsistencies_view(views, SCALES, make_machine()).empty


def test_the_worst_comes_first_whatever_it_is():
    found = find(
        io=[read("staging", 1e9)], ceilings=FAST_LOCAL, communication=[exchange(9 * reaches(4.0**6))], links=link()
    )
    assert list(found["ratio"]) == pytest.approx([9, 5])


@pytest.mark.parametrize(("precision", "is_above"), [("fp32", True), ("tf32", False)])
def test_a_training_is_held_by_the_products_of_its_precision(precision, is_above):
    ceilings = [
        {"kind": "gemm", "precision": name, "threads": 1, "value": rate, "unit": "FLOP/s", "source": f"{name}.json"}
        for name, rate in (("fp32", 1e9), ("tf32", 8e9))
    ]
    trained = {**make_point("b", variant="v"), "method": "formula", "rate_flop_per_s": 4e9}
    views = {name: as_view(name, {"work": [trained], "ceilings": ceilings}.get(name, [])) for name in VIEWS}
    found = inconsistencies_view(views, SCALES.assign(precision=precision), make_machine())
    assert list(found["roof"]) == ([2e9] if is_above else [])
