"""From machine files to scenarios and answers; messages name values that a file does not declare."""

from pathlib import Path

import numpy as np
import pytest
from unit.record_factory import make_record

from hpcai.config.machine import HplMachine, Machine
from hpcai.core.errors import ConfigError
from hpcai.predict.hpl.answers import (
    LEAST_HOST_LINK,
    LEAST_NETWORK,
    MachineChoice,
    answer_questions,
    largest_order,
    scenario_of_machine,
)
from hpcai.predict.hpl.assumptions import list_assumption_sets
from hpcai.predict.hpl.simulate import simulate
from hpcai.predict.hpl_settings import read_machine

MACHINES = Path(__file__).parents[4] / "config/machines"
SOURCE = [read_machine(MACHINES / f"paper_hu_lu_{gpus}gpu.yaml") for gpus in (2, 4)]
LAPTOP = read_machine(MACHINES / "laptop.yaml")


def test_the_source_s_machines_are_assumption_set_1():
    expected = simulate(list_assumption_sets()[0].scenario).rate_flop_per_s
    rows = [(0, 1, 88000, 256), (1, 1, 127000, 384), (0, 2, 125000, 128), (1, 2, 176000, 128)]
    found = [
        float(simulate(scenario_of_machine(SOURCE[i], order, block, MachineChoice(nodes))).rate_flop_per_s)
        for i, nodes, order, block in rows
    ]
    assert found == pytest.approx(expected[[0, 3, 4, 7]], rel=1e-12)


def test_every_declared_number_has_a_source():
    for machine in SOURCE:
        declared = machine.hpl
        for part in (declared.processor_peak, declared.accelerator_peak, declared.host_link, declared.efficiencies):
            assert part.source
        assert "assumed" in declared.processor_peak.source


def test_undeclared_keys_are_named():
    with pytest.raises(ConfigError, match=r"laptop: hpl.processor_peak, hpl.efficiencies"):
        scenario_of_machine(LAPTOP, 1000, 100, MachineChoice(variant="cpu"))
    bare = SOURCE[0].model_copy(update={"hpl": HplMachine()})
    with pytest.raises(ConfigError, match=r"hpl.accelerator_peak, hpl.host_link, hpl.topology"):
        scenario_of_machine(bare, 1000, 100)
    no_network = SOURCE[0].model_copy(update={"links": LAPTOP.links})
    with pytest.raises(ConfigError, match=r"links.network not declared"):
        scenario_of_machine(no_network, 1000, 100)
    with pytest.raises(ConfigError, match="has no accelerators"):
        scenario_of_machine(LAPTOP, 1000, 100)
    with pytest.raises(ConfigError, match="has 2 nodes; found 3"):
        scenario_of_machine(SOURCE[0], 1000, 100, MachineChoice(nodes=3))
    with pytest.raises(ConfigError, match="fitted parameters"):
        scenario_of_machine(SOURCE[0], 1000, 100, MachineChoice(variant="calibrated"))


def test_machine_files_with_and_without_hpl():
    plan = make_record().plan
    assert "hpl" not in plan.machine.model_dump()
    assert "hpl" not in LAPTOP.model_dump(mode="json")
    again = Machine.model_validate(SOURCE[1].model_dump(mode="json"))
    assert again == SOURCE[1]


def test_the_largest_order():
    assert largest_order(SOURCE[0], 256, MachineChoice(nodes=1)) == 87808
    assert largest_order(LAPTOP, 128, MachineChoice(variant="cpu")) == 30976
    with pytest.raises(ConfigError, match=r"device.memory_bytes not declared"):
        largest_order(SOURCE[0].model_copy(update={"device": LAPTOP.device}), 256)


def test_answers_for_the_source_s_machine():
    answers = answer_questions(SOURCE[1], block=128).set_index("question")
    assert answers["answer"].notna().all()
    assert set(answers["method"]) == {"modelled"}
    assert set(answers["variant"]) == {"device"}
    assert answers.loc["largest order", "answer"] % 128 == 0
    assert answers.loc[LEAST_HOST_LINK, "unit"] == "byte/s"
    assert "95%" in answers.loc[LEAST_NETWORK, "given"]
    assert answers["source"].str.contains("paper_hu_lu_4gpu.yaml").all()


def test_answers_for_a_machine_that_declares_nothing_are_reasons():
    answers = answer_questions(LAPTOP).set_index("question")
    others = answers.drop(index="largest order")
    assert others["answer"].isna().all()
    assert others["reason"].str.contains("hpl.processor_peak").all()
    assert np.isfinite(answers.loc["largest order", "answer"])
