"""Energy from power logs equals the package's, node by node and switch by switch."""

import math
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlperf_logging.compliance_checker.mlp_parser import parse_file
from mlperf_logging.result_summarizer import result_summarizer as package
from unit.mlperf_hpc.log_factory import log_text, point, text_of, write_tree

from hpcai.mlperf_hpc.analysis.energy import NO_NODES, read_energies, run_energy
from hpcai.mlperf_hpc.rounds.reading import read_round
from hpcai.parsers.mllog import Mllog, parse_mllog

START_MS = 1_700_000_000_000


def read(text: str, name: str = "node_1.txt") -> Mllog:
    """Return a log as the importer reads it."""
    return parse_mllog(text.encode(), name)


def power_log(readings: Sequence[tuple[float, float]], *, stop_s: float | None = 10.0, efficiency: float = 1.0) -> str:
    """Return a node's log: times [s] after the start, and powers [W]."""
    events: list[Mapping[str, Any]] = [point(START_MS, "conversion_eff", efficiency)]
    events.append(point(START_MS, "power_measurement_start", None))
    events += [point(START_MS + time_s * 1000, "power_reading", power_w) for time_s, power_w in readings]
    if stop_s is not None:
        events.append(point(START_MS + stop_s * 1000, "power_measurement_stop", None))
    return text_of(events)


def switch_log(power_w: object, efficiency: float = 1.0) -> str:
    """Return a switch's log."""
    return text_of([point(0, "conversion_eff", efficiency), point(0, "interconnect_power_est", power_w)])


def test_constant_power_is_power_times_time() -> None:
    energy = run_energy([read(power_log([(5, 300.0), (10, 300.0)]))], [], 200.0)
    assert energy.energy_j == pytest.approx(300.0 * 200.0)
    assert energy.reason == ""


def test_each_reading_stands_for_the_time_before_it() -> None:
    energy = run_energy([read(power_log([(8, 100.0), (10, 400.0)]))], [], 10.0)
    assert energy.energy_j == pytest.approx(8 * 100 + 2 * 400)


def test_time_between_last_reading_and_stop_counts_as_no_power() -> None:
    energy = run_energy([read(power_log([(5, 300.0)], stop_s=10.0))], [], 10.0)
    assert energy.energy_j == pytest.approx(1500.0)


def test_without_a_stop_the_last_reading_ends_the_window() -> None:
    energy = run_energy([read(power_log([(5, 300.0)], stop_s=None))], [], 10.0)
    assert energy.energy_j == pytest.approx(3000.0)


def test_nodes_and_switches_add_up() -> None:
    nodes = [read(power_log([(10, 300.0)])), read(power_log([(10, 100.0)], efficiency=0.5))]
    energy = run_energy(nodes, [read(switch_log(20.0, 0.5), "sw_1.txt"), read("", "sw_2.txt")], 60.0)
    assert energy.energy_j == pytest.approx(60 * (300 + 50 + 10))


@pytest.mark.parametrize(
    ("nodes", "switches", "words"),
    [
        ([], [], "no log of a node"),
        ([text_of([point(0, "power_reading", 5.0)])], [], "node_1.txt has no power_measurement_start"),
        ([power_log([], stop_s=None)], [], "node_1.txt has no power_reading"),
        ([power_log([(10, math.nan)])], [], "node_1.txt has no power_reading with a number"),
        ([power_log([(10, 1.0)])], [switch_log("many")], "sw_1.txt states no number of watts"),
    ],
)
def test_logs_that_give_no_energy_say_why(nodes: list[str], switches: list[str], words: str) -> None:
    energy = run_energy([read(text) for text in nodes], [read(text, "sw_1.txt") for text in switches], 60.0)
    assert math.isnan(energy.energy_j)
    assert words in energy.reason


@settings(max_examples=25, deadline=None)
@given(
    readings=st.lists(st.tuples(st.integers(1, 30), st.floats(1, 1e4)), min_size=1, max_size=6),
    stop_s=st.one_of(st.none(), st.integers(1, 40)),
    efficiency=st.floats(0.5, 1.0),
    switch_w=st.floats(0, 500),
    run_s=st.integers(1, 10_000),
)
def test_energy_equals_the_package(
    readings: list[tuple[int, float]],
    stop_s: int | None,
    efficiency: float,
    switch_w: float,
    run_s: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("power") / "power" / "result_1"
    folder.mkdir(parents=True)
    node, switch = power_log(readings, stop_s=stop_s, efficiency=efficiency), switch_log(switch_w, efficiency)
    (folder / "node_1.txt").write_text(node)
    (folder / "sw_1.txt").write_text(switch)
    result = str(folder.parent.parent / "result_1.txt")
    theirs = package._compute_total_power(str(folder.parent.parent), result, run_s * 1000.0, "3.0.0")
    ours = run_energy([read(node)], [read(switch)], float(run_s))
    assert ours.energy_j == pytest.approx(theirs, rel=1e-12)


def test_the_package_multiplies_by_the_efficiency_of_conversion(tmp_path: Path) -> None:
    """Energy drawn from the wall would be the power behind the supply *divided* by its efficiency."""
    file = tmp_path / "node_1.txt"
    file.write_text(power_log([(10, 300.0)], efficiency=0.9))
    lines, _ = parse_file(str(file), "3.0.0")
    assert package._compute_power_node(lines, 10_000.0) == pytest.approx(0.9 * 3000.0)


def test_an_archive_gives_the_energies_of_its_folder(tmp_path: Path) -> None:
    tree = tmp_path / "round"
    logs = write_tree(tree, scaling="strong", logs=[log_text(seed=number) for number in (1, 2)])
    power = logs / "power" / "result_1"
    power.mkdir(parents=True)
    (power / "node_1.txt").write_text(power_log([(5, 300.0), (10, 300.0)]))
    archive = tmp_path / "round.tar.gz"
    with tarfile.open(archive, "w:gz") as writer:
        writer.add(tree, arcname=".")
    for source in (tree, archive):
        rounds = [read_round(source)]
        energies = read_energies(rounds, [])
        for run in rounds[0].submissions[0].runs:
            assert run.run is not None
            found = energies[rounds[0].name, run.source]
            if run.number == 1:
                assert found.energy_j == pytest.approx(300.0 * run.run.duration_s)
            else:
                assert math.isnan(found.energy_j)
                assert found.reason == NO_NODES
