"""Slow members of a fleet are found by the measured noise, healthy fleets raise no alarm, and small fleets say so."""

import numpy as np
import pytest
from unit.acceptance_factory import (
    HEAVY_TAIL,
    HOSTS,
    NOISE,
    PASS_DRIFT,
    SHAMOS_OF_TAIL,
    TURN_NOISE,
    make_measured,
    make_series,
    simulate,
)

from hpcai.catalogue.tables import columns_of
from hpcai.config.acceptance import Acceptance
from hpcai.metrics.acceptance import (
    ALL,
    BANDWIDTH,
    BEST_PAIR,
    FEW_NODES,
    LATENCY,
    NO_FLEET,
    NO_LINK,
    NOT_ALL_NODES,
    NOT_MADE,
    ONE_NODE,
    WORST,
    findings_table,
    judge_acceptance,
    say_accepted,
    unfit_nodes,
)
from hpcai.metrics.statistics.fleet import FleetTest, place_in_fleet, shamos


def judge(measured):
    return judge_acceptance(measured, "0" * 64, "measurements.json")


def verdicts(accepted, kind="node", measure=ALL):
    return {one.subject: one.verdict for one in accepted.findings if (one.kind, one.measure) == (kind, measure)}


def test_a_hundred_healthy_starts_raise_no_alarm():
    random = np.random.default_rng(20260722)
    alarms = [start for start in range(100) if judge(simulate(random, pairs=2)).verdict != "healthy"]
    assert alarms == []


@pytest.mark.parametrize("measure", NOISE)
@pytest.mark.parametrize(("loss", "expected"), [(0.10, "suspicious"), (0.20, "broken")])
def test_every_slowed_node_is_found_in_any_measurement(measure, loss, expected):
    random = np.random.default_rng(7)
    for _ in range(3):
        slowed = [str(host) for host in random.choice(HOSTS, 4, replace=False)]
        found = verdicts(judge(simulate(random, dict.fromkeys(slowed, loss), [measure], pairs=0)))
        assert {node: verdict for node, verdict in found.items() if verdict != "healthy"} == dict.fromkeys(
            slowed, expected
        )


def test_power_at_five_percent_is_what_the_documentation_says():
    random = np.random.default_rng(5)
    slowed = dict.fromkeys(HOSTS[:4], 0.05)
    found = [verdicts(judge(simulate(random, slowed, pairs=0))) for _ in range(15)]
    hits = sum(one[host] != "healthy" for one in found for host in slowed)
    assert hits / (len(found) * len(slowed)) >= 0.5


def test_a_slow_network_adapter_marks_its_pairs_and_its_node():
    random = np.random.default_rng(3)
    accepted = judge(simulate(random, {"n5": 0.3}, ["allreduce bandwidth"], pairs=3))
    bad = {pair for pair, verdict in verdicts(accepted, "pair").items() if verdict == "broken"}
    assert bad
    assert all("n5" in pair.split(" + ") for pair in bad)
    measure = BEST_PAIR.format(measure="allreduce bandwidth")
    nodes = verdicts(accepted, measure=measure)
    assert {node for node, verdict in nodes.items() if verdict != "healthy"} == {"n5"}


@pytest.mark.parametrize(("nodes", "slowed"), [(3, "n2"), (2, "n1"), (4, "n4")])
def test_few_nodes_are_judged_by_an_assumed_spread(nodes, slowed):
    random = np.random.default_rng(11)
    hosts = [f"n{number}" for number in range(1, nodes + 1)]
    accepted = judge(simulate(random, {slowed: 0.2}, ["gemm fp32"], hosts=hosts, pairs=0))
    assert {node for node, one in verdicts(accepted).items() if one != "healthy"} == {slowed}
    assert FEW_NODES.find_in(accepted.reason)["n"] == str(nodes)
    assert judge(simulate(random, hosts=hosts, pairs=1)).verdict == "healthy"


TURNS = FleetTest(42, 0.02)
PASSES = 12
"""As in tests/slurm/test_acceptance.py: with its noise, six turns do not show a loss of 20 % each time."""


def turns(random, loss=0.0, drift=PASS_DRIFT, passes=PASSES):
    """Three nodes on one host that take turns; n2 is slower."""
    shared = drift * random.standard_normal(passes)
    noise = TURN_NOISE / SHAMOS_OF_TAIL * random.standard_t(HEAVY_TAIL, (3, passes))
    slower = np.array([[0.0], [np.log1p(-loss)], [0.0]])
    return dict(zip(("n1", "n2", "n3"), np.exp(noise + shared + slower), strict=True))


def found(places):
    limit = Acceptance().false_alarm_ratio
    return {node for node, place in places.items() if place.p_value < limit}


def test_three_nodes_that_take_turns_raise_no_alarm_and_a_fifth_is_found():
    random = np.random.default_rng(20261127)
    for _ in range(100):
        for passes in (PASSES, Acceptance().passes):
            healthy = [turns(random, passes=passes) for _ in range(14)]
            places = [place_in_fleet(one, TURNS, lower_is_better=False, in_passes=True) for one in healthy]
            assert not any(map(found, places))
        slow = place_in_fleet(turns(random, 0.2), TURNS, lower_is_better=False, in_passes=True)
        assert found(slow) == {"n2"}


def test_what_a_pass_has_in_common_changes_no_place():
    quiet, busy = (
        place_in_fleet(turns(np.random.default_rng(4), 0.1, drift), TURNS, lower_is_better=False, in_passes=True)
        for drift in (0.0, 0.3)
    )
    for node in quiet:
        assert busy[node].p_value == pytest.approx(quiet[node].p_value, rel=1e-6)
        assert busy[node].loss_ratio - quiet[node].loss_ratio == pytest.approx(0, abs=1e-9)


def test_passes_are_compared_only_where_all_subjects_have_them():
    passes = (1.0, 2.0, 4.0)
    series = [make_series(host, "gemm fp32", passes, in_passes=True) for host in ("n1", "n2")]
    noise = []
    for values in (passes, passes[:2]):
        judged = judge(make_measured([*series, make_series("n3", "gemm fp32", values, in_passes=True)], HOSTS[:3]))
        noise += [next(one.noise_ratio for one in judged.findings if one.measure == "gemm fp32")]
    assert noise[0] == pytest.approx(0, abs=1e-9)
    assert noise[1] > 0.5


def test_eight_members_find_no_less_than_seven_and_show_a_larger_spread_than_the_assumed_one():
    random = np.random.default_rng(8)
    own = {f"n{number}": random.normal(0, 0.01) for number in range(8)}
    p_values = {}
    for count in (7, 8):
        nodes = list(own)[:count]
        values = {node: np.exp(own[node] + random.normal(0, 0.02, 20) - 0.17 * (node == "n0")) for node in nodes}
        p_values[count] = place_in_fleet(values, FleetTest(80, 0.02), lower_is_better=False)["n0"].p_value
    assert p_values[8] < Acceptance().false_alarm_ratio > p_values[7]
    apart = {node: np.exp(10 * logarithm + random.normal(0, 0.02, 20)) for node, logarithm in own.items()}
    places = place_in_fleet(apart, FleetTest(80, 0.02), lower_is_better=False)
    assert all(place.spread_ratio > 0.05 for place in places.values())


def test_one_node_has_only_completion_to_show():
    accepted = judge(simulate(np.random.default_rng(1), hosts=["n1"], pairs=0))
    assert accepted.verdict == "healthy"
    assert accepted.reason == ONE_NODE()
    row = next(one for one in accepted.findings if one.measure == "gemm fp32")
    assert (row.reason, row.fleet_median, row.p_value) == (NO_FLEET(), None, None)


def test_what_failed_is_broken_and_what_no_node_has_is_not_measured():
    values = (1.0, 1.01, 0.99)
    series = [make_series(host, "gemm fp32", values) for host in ("n1", "n2", "n3")]
    series += [make_series("n4", "gemm fp32", (), reason="crashed", failed=True)]
    series += [make_series(host, "scratch read", (), reason="in memory") for host in ("n1", "n2", "n3", "n4")]
    series += [make_series(host, "memory copy", values) for host in ("n1", "n2", "n3")]
    series += [make_series("n4", "memory copy", (), reason="no memory")]
    accepted = judge(make_measured(series, ["n1", "n2", "n3", "n4"]))
    assert verdicts(accepted) == {"n1": "healthy", "n2": "healthy", "n3": "healthy", "n4": "broken"}
    assert set(verdicts(accepted, measure="scratch read").values()) == {"not_measured"}
    assert verdicts(accepted, measure="memory copy")["n4"] == "broken"
    assert accepted.verdict == "broken"


def test_a_machine_without_any_measurement_is_broken():
    series = [make_series("n1", "scratch read", (), reason="in memory")]
    assert judge(make_measured(series, ["n1"])).verdict == "broken"


def test_nodes_left_out_are_named():
    series = [make_series(host, "gemm fp32", (1.0, 1.0, 1.0)) for host in HOSTS[:16]]
    reason = judge(make_measured(series, HOSTS[:16], machine_nodes=17)).reason
    assert NOT_ALL_NODES.find_in(reason) == {"n": "16", "all": "17"}


def test_a_large_loss_within_the_noise_is_no_alarm():
    series = [make_series(host, "gemm fp32", (1.0, 0.7, 1.4, 0.6, 1.5)) for host in HOSTS[:8]]
    series += [make_series("n9", "gemm fp32", (0.9, 0.7, 1.2, 0.6, 1.3))]
    assert verdicts(judge(make_measured(series, HOSTS[:9])))["n9"] == "healthy"


def test_the_table_has_its_columns_and_the_worst_first():
    measured = simulate(np.random.default_rng(2), {"n5": 0.2, "n7": 0.1}, pairs=1)
    late = skipped(2, HOSTS)
    accepted = judge(measured.model_copy(update={"series": (*measured.series, *late)}))
    table = findings_table(accepted.model_copy(update={"findings": accepted.findings[::-1]}))
    assert list(table.columns) == list(columns_of("acceptance"))
    assert table["verdict"].iloc[0] == "broken"
    ranks = [(WORST.index(row.verdict), row.measure != ALL) for row in table.itertuples()]
    assert ranks == sorted(ranks)
    assert WORST == ("broken", "suspicious", "healthy", "not_measured")
    assert set(table["verdict"]) == set(WORST)
    row = table[(table["subject"] == "n5") & (table["measure"] == "gemm fp32")].iloc[0]
    assert row["loss_ratio"] == pytest.approx(0.2, abs=0.03)
    assert row["p_value"] < Acceptance().false_alarm_ratio


def test_times_are_better_when_lower():
    values = {f"n{number}": (1.0, 1.001, 0.999) for number in range(10)} | {"slow": (1.25, 1.249, 1.251)}
    places = place_in_fleet(values, FleetTest(11, 0.02), lower_is_better=True)
    assert places["slow"].loss_ratio == pytest.approx(0.2, abs=0.002)
    assert places["slow"].value == pytest.approx(1.25)


def test_the_scale_is_a_standard_deviation_and_ignores_outliers():
    values = np.random.default_rng(0).normal(0, 2.0, 400)
    assert shamos(values) == pytest.approx(2.0, rel=0.1)
    assert shamos(np.append(values, [1e6] * 5)) == pytest.approx(2.0, rel=0.15)


def test_unfit_nodes_failed_or_lack_what_most_others_have():
    series = [make_series(host, "scratch", (1.0, 2.0)) for host in ("n1", "n2", "n3")]
    series += [make_series("n4", "scratch", ()), make_series("n1", "gemm", (), failed=True)]
    series += [make_series("n2", "memory", ()), make_series("n3", "memory", ())]  # nobody has it
    assert unfit_nodes(series) == {"n1", "n4"}


LATE = {"reason": "no time", "tried": False}


def skipped(number, nodes):
    """Return a round of pairs that had no time."""
    return [
        make_series(f"round {number}", measure, (), kind="pair", nodes=nodes, **LATE)
        for measure in (LATENCY, BANDWIDTH)
    ]


@pytest.mark.parametrize("rows", [True, False])
def test_several_nodes_without_a_measured_link_are_not_healthy(rows):
    measured = simulate(np.random.default_rng(12), hosts=HOSTS[:4], pairs=0)
    late = [one for number in (1, 2) for one in skipped(number, HOSTS[:4])] if rows else []
    accepted = judge(measured.model_copy(update={"series": (*measured.series, *late)}))
    assert accepted.verdict == "suspicious"
    assert NO_LINK.find_in(accepted.reason) == {"n": "4"}
    assert set(verdicts(accepted).values()) == {"healthy"}
    assert set(verdicts(accepted, "pair").values()) == ({"not_measured"} if rows else set())
    measures = f"pair ({LATENCY}), pair ({BANDWIDTH})"
    expected = {"n": "2", "reason": "no time", "measures": measures} if rows else None
    assert NOT_MADE.find_in(accepted.reason) == expected
    assert ("not_measured: 2 of kind pair" in say_accepted(accepted)) == rows


def test_rounds_that_had_no_time_are_not_broken_beside_measured_ones():
    measured = simulate(np.random.default_rng(12), hosts=HOSTS[:4], pairs=2)
    accepted = judge(measured.model_copy(update={"series": (*measured.series, *skipped(3, HOSTS[:4]))}))
    assert accepted.verdict == "healthy"
    assert verdicts(accepted, "pair")["round 3"] == "not_measured"
    assert NO_LINK.find_in(accepted.reason) is None
    assert NOT_MADE.find_in(accepted.reason)["measures"].count("in part") == 2


def test_what_nobody_has_is_named_with_its_reason_and_what_failed_is_not():
    values = (1.0, 1.01, 0.99)
    series = [make_series("n1", "gemm fp32", values), make_series("n1", "scratch read", (), reason="in memory")]
    series += [make_series("n1", "training", (), reason="crashed", failed=True)]
    accepted = judge(make_measured(series, ["n1"]))
    assert NOT_MADE.find_in(accepted.reason) == {"n": "1", "reason": "in memory", "measures": "node (scratch read)"}
    assert accepted.verdict == "broken"


def test_nodes_without_time_are_not_unfit():
    series = [make_series(host, "training", (1.0, 2.0)) for host in ("n1", "n2")]
    assert unfit_nodes([*series, make_series("n3", "training", (), **LATE)]) == set()
