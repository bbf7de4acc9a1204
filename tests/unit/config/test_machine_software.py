"""Modules and image of a machine file are data that no shell can misread, and empty where none is named."""

from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError
from unit.record_factory import make_record

from hpcai.config.load import load_campaign
from hpcai.config.machine import FORGETTING, Machine, Software

ROOT = Path(__file__).parents[3]
EXAMPLES = ("cluster_cpu", "cluster_gpu")
PLAN = make_record().plan


def test_without_software_plans_stay_as_they_were():
    assert "software" not in PLAN.machine.model_dump()
    assert "software" not in PLAN.model_dump(mode="json")["machine"]
    assert PLAN.machine.modules == ()


def test_software_is_part_of_the_plan_that_a_run_reads():
    named = PLAN.machine.model_copy(update={"software": Software(modules=("gcc/12",), container="image.sif")})
    again = Machine.model_validate(PLAN.model_copy(update={"machine": named}).model_dump(mode="json")["machine"])
    assert again == named
    assert again.modules == ("gcc/12",)


@pytest.mark.parametrize("name", ["openmpi/4.1.6", "gcc@12.2.0", "2023", "Core/lmod-extras+x86:v3"])
def test_names_of_modules(name):
    assert Software(modules=[name]).modules == (name,)


@pytest.mark.parametrize("name", ["", "gcc; rm x", "$(id)", "a b", "-f", "gcc\n", "`id`", "a&b", "'", "~/module"])
def test_no_shell_text_as_a_module(name):
    with pytest.raises(ValidationError, match="modules"):
        Software(modules=[name])


@pytest.mark.parametrize("option", FORGETTING)
def test_no_option_that_loses_the_variables_of_the_ranks(option):
    with pytest.raises(ValidationError, match="ranks find each other"):
        Software(container="image.sif", container_options=[option])


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"container_options": ["--nv"]}, "without a container"),
        ({"container": "docker://debian:12"}, "container"),
        ({"container": "a b.sif"}, "container"),
        ({"container": "x.sif", "container_command": "docker"}, "container_command"),
        ({"container": "x.sif", "container_options": ["--bind $(id)"]}, "container_options"),
        ({"image": "x.sif"}, "image"),
    ],
)
def test_what_is_no_software(settings, words):
    with pytest.raises(ValidationError, match=words):
        Software(**settings)


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_of_clusters_are_valid_and_declare_no_number_without_a_source(name):
    machine = load_campaign(study_on(name), ROOT / "config").machine
    assert machine.name == name
    assert "to be filled in" in machine.title
    assert machine.device.peaks == {}
    assert machine.links.intra_node is machine.links.network is machine.device.memory_link is None
    assert machine.software is None


@pytest.mark.parametrize("name", EXAMPLES)
def test_software_of_the_examples_is_valid_once_it_is_uncommented(name):
    text = (ROOT / "config/machines" / f"{name}.yaml").read_text()
    block = text[text.index("# software:") :]
    lines = [line.removeprefix("# ") for line in block.splitlines() if not line.startswith("#   #")]
    software = Software.model_validate(yaml.safe_load("\n".join(lines))["software"])
    assert software.modules
    assert software.container
    assert ("--nv" in software.container_options) == (name == "cluster_gpu")


def study_on(machine):
    study = yaml.safe_load((ROOT / "config/study.yaml").read_text())
    return {**study, "machine": machine}
