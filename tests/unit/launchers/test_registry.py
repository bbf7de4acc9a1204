"""Launchers are found by their files; ranks and records are recognised by each launcher's declaration."""

from pathlib import Path

import pytest
from unit.record_factory import make_record
from unit.toy_parts import library_with
from unit.workloads.toy_library import call_python

from hpcai.campaign.library_digest import import_closure
from hpcai.launchers import registry
from hpcai.launchers.registry import LAUNCHERS, default_launcher, launcher_of, local_rank_of, rank_of

SHOW = """
from unit.record_factory import make_record
from hpcai.launchers.ranks import Ranks
from hpcai.launchers.registry import LAUNCHERS, launch_command, launcher_of, local_rank_of, rank_of
from hpcai.measure.provenance import environment_facts
command = launch_command("toy", Ranks("r", 1, 2, 1), ["train"])
record = make_record()
record = record.model_copy(update={"provenance": record.provenance.model_copy(update={"command": tuple(command)})})
told = {"TOY_RANK": "1", "SLURM_PROCID": "0", "SLURM_LOCALID": "0"}
print(*LAUNCHERS, launcher_of(record), rank_of(told), local_rank_of(told), *environment_facts({"TOY_RANK": "1"}))
"""


def of_command(*command: str) -> str:
    record = make_record()
    provenance = record.provenance.model_copy(update={"command": command})
    return launcher_of(record.model_copy(update={"provenance": provenance}))


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (("/x/python", "-m", "hpcai.training.launch", "-np", "2", "--gloo"), "horovodrun"),
        (("python", "-m", "hpcai.training.launch_nodes", "--", "/usr/bin/srun", "python"), "horovodrun"),
        (("/usr/bin/srun", "--nodes=1", "env", "A=1", "/usr/bin/mpirun", "-np", "2"), "mpirun"),
        (("/usr/bin/srun", "--nodes=1", "python"), "srun"),
        (("aprun", "python"), ""),
    ],
)
def test_a_recorded_command_tells_its_launcher(command: tuple[str, ...], expected: str) -> None:
    assert of_command(*command) == expected


@pytest.mark.parametrize(
    "variable", ["HOROVOD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID", "MPI_LOCALRANKID"]
)
def test_local_rank_of_each_launcher(variable: str) -> None:
    assert local_rank_of({variable: "3", "PATH": "x"}) == 3


@pytest.mark.parametrize("variable", ["HOROVOD_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"])
def test_rank_of_each_launcher(variable: str) -> None:
    assert rank_of({variable: "3", "PATH": "x"}) == 3


def test_a_program_without_a_launcher_is_the_first_rank() -> None:
    assert (rank_of({"PATH": "x"}), local_rank_of({"PATH": "x"})) == (0, 0)


def test_a_step_of_slurm_may_hold_another_launcher() -> None:
    assert rank_of({"SLURM_PROCID": "0", "OMPI_COMM_WORLD_RANK": "5"}) == 5
    last = [launcher.of_batch_system for launcher in LAUNCHERS.values()]
    assert last == sorted(last)
    assert any(last)


def test_one_launcher_is_the_default() -> None:
    assert [name for name, launcher in LAUNCHERS.items() if launcher.default] == [default_launcher()]


def test_spawn_is_used_where_the_default_is_not_installed(monkeypatch):
    monkeypatch.setattr(registry, "find_spec", lambda module: None if module == "horovod" else module)
    assert [name for name, launcher in LAUNCHERS.items() if launcher.stands_in] == [default_launcher()]
    assert not LAUNCHERS[default_launcher()].packages


def test_digests_follow_launchers() -> None:
    source = Path(__file__).parents[3] / "src"
    closure = import_closure(source / "hpcai/launchers/registry.py", source)
    assert {source / f"hpcai/launchers/{name}.py" for name in LAUNCHERS} <= closure


def test_a_launcher_is_added_by_one_file(tmp_path: Path) -> None:
    library = library_with(tmp_path, "toy_launcher.py", "launchers/toy.py")
    found = call_python(library, "-c", SHOW).split()
    assert set(found[:-4]) == {*LAUNCHERS, "toy"}
    assert found[-4:] == ["toy", "1", "1", "TOY_RANK"]
    assert "toy: a shell on one node" in " ".join(call_python(library, "-m", "hpcai", "measure", "--help").split())
