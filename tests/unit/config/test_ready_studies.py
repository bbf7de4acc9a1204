"""The ready studies of config/studies: each is a valid study of its own, small on a workstation."""

from pathlib import Path

import pytest

from hpcai.config.load import load_study_file
from hpcai.config.runs import Point
from hpcai.rules.judge import judge
from hpcai.rules.verdict import RunFacts

STUDIES = sorted((Path(__file__).parents[3] / "config" / "studies").glob("*/*.yaml"))
VARIED = {
    "precision": {"precision"},
    "compression": {"compression"},
    "vflops": {"precision", "compression"},
    "fusion": {"fusion_bytes", "cycle_time_s"},
    "accumulation": {"accumulation"},
    "weak": {"global_batch"},
    "batch": {"global_batch"},
    "large_batch": {"global_batch"},
    "evaluation": {"evaluation_batch", "evaluation_cache", "training_cache"},
    "open": set(),
    "topology": {"allreduce_topology"},
}
"""Settings of points that each study varies; `open` varies the benchmark."""
MOST_SAMPLES = 3_000_000
"""Training samples of all runs of a study for a workstation: about an hour of the small benchmarks on two cores."""


def test_every_topic_has_a_study_for_a_cluster_and_but_for_topology_one_for_a_workstation() -> None:
    found = {(path.parent.name, path.stem) for path in STUDIES}
    assert found == {(topic, "cluster") for topic in VARIED} | {(topic, "study") for topic in {*VARIED} - {"topology"}}


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_each_study_is_valid_and_varies_what_it_is_for(path: Path) -> None:
    campaign = load_study_file(path)
    varied = {
        name
        for benchmark in campaign.benchmarks
        for name in Point.model_fields
        if len({getattr(row, name) for row in campaign.rows if row.benchmark == benchmark}) > 1
    }
    assert varied - {"variant", "nodes", "ranks_per_node"} >= VARIED[path.parent.name]
    assert campaign.study.show_first
    scales = {(row.benchmark, row.variant): set() for row in campaign.rows}
    for row in campaign.rows:
        scales[row.benchmark, row.variant].add((row.nodes, row.ranks_per_node))
    if "scaling" in campaign.study.show_first:
        assert max(map(len, scales.values())) > 1, "at one scale the figure is empty"
    assert campaign.study.corresponds_to
    assert {row.benchmark for row in campaign.rows} == set(campaign.benchmarks)
    if path.stem == "cluster":
        assert campaign.machine.nodes > 1
        assert {one.data.source for one in campaign.benchmarks.values()} <= {"download", "existing"}
        return
    samples = sum(
        row.repeats
        * campaign.benchmarks[row.benchmark].data.train_samples
        * campaign.benchmarks[row.benchmark].recipe.max_epochs
        for row in campaign.rows
    )
    assert samples <= MOST_SAMPLES
    assert {one.data.source for one in campaign.benchmarks.values()} == {"generate"}


def test_choices_of_the_open_division_are_no_closed_ones() -> None:
    campaign = load_study_file(STUDIES[0].parents[1] / "open" / "study.yaml")
    rules = {}
    for row in campaign.rows:
        plan = campaign.plan(row, 1)
        closed, opened = judge(plan, RunFacts.before(plan))
        rules[row.benchmark] = {one.rule for one in closed.deviations} - {one.rule for one in opened.deviations}
    plain = rules.pop("cosmoflow_tiny")
    found = {name.removeprefix("cosmoflow_tiny_"): broken - plain for name, broken in rules.items()}
    assert found == {
        "dropout": set(),  # the tables allow any
        "linear": {"cosmoflow_decay"},
        "augmented": {"cosmoflow_augmentation"},
        "skipping": {"gradient_skipping"},
    }
