"""Work on every node of a run. Processes replace the step of Slurm here."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from unit.measure.slurm_jobs import Scontrol, enter_job, outside_of_jobs
from unit.refusals import told

from hpcai.data.stage_folder import FOREIGN_FOLDER, MARKER, own_stage
from hpcai.launchers.ranks import Ranks
from hpcai.measure import nodes
from hpcai.measure.nodes import (
    DATA_GONE,
    ENDED_AFTER,
    ENDED_LEFT,
    ENDED_WITH,
    NO_ANSWER,
    NOT_CLEANED,
    NOT_DROPPED,
    NOT_REACHED,
    ONLY_SLOW,
    NodeFacts,
    clean_nodes,
    prepare_nodes,
)
from hpcai.measure.watch import ATTEMPT_VARIABLE
from hpcai.records.weak import NodeShare

outside = pytest.fixture(autouse=True)(outside_of_jobs)
RANKS = Ranks("b/v/n2x1/r1", nodes=2, ranks_per_node=1, cores_per_rank=1)
HERE = Ranks("b/v/n1x2/r1", nodes=1, ranks_per_node=2, cores_per_rank=1)
STEP = """
import os, subprocess, sys
own = sys.argv.index(sys.executable)
hosts = next(part for part in sys.argv if part.startswith("--nodelist=")).partition("=")[2].split(",")
given = sys.stdin.buffer.read()
print("srun: some banner", flush=True)
ended = 0
for host in hosts:
    if host == "gone":
        print("srun: error: Node failure on gone", file=sys.stderr)
        ended = 1
    else:
        ended |= subprocess.run(sys.argv[own:], input=given, env={**os.environ, "SLURMD_NODENAME": host}).returncode
sys.exit(ended)
"""


@pytest.fixture
def step(tmp_path, monkeypatch):
    """srun, which runs the tasks of all nodes here, one after the other."""
    program = tmp_path / "srun"
    program.write_text(f"#!{sys.executable}\n{STEP}")
    program.chmod(0o755)
    monkeypatch.setattr("shutil.which", lambda _: str(program))


def write_data(folder: Path) -> list[Path]:
    folder.mkdir()
    files = [folder / f"shard {number}\n.tar" for number in range(3)]  # names that would break lists of lines or words
    for file in files:
        file.write_bytes(os.urandom(10_000))
    return files


def leave_behind(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / MARKER).touch()


def test_one_node_is_prepared_in_this_process(tmp_path, monkeypatch):
    monkeypatch.setattr(nodes, "_run_step", None)
    leave_behind(own_stage(tmp_path / "scratch" / "old"))
    report = prepare_nodes("horovodrun", HERE, tmp_path / "scratch" / "new", write_data(tmp_path / "data"))
    (facts,) = report.nodes
    assert report.page_cache == facts.page_cache
    assert (facts.swept, facts.swept_names, facts.problem) == (1, ("old",), "")
    assert facts.free_bytes > 0
    assert facts.memory_bytes > 2**28
    assert list((tmp_path / "scratch").iterdir()) == []


@pytest.mark.usefixtures("step")
def test_all_nodes_of_a_job_are_prepared_by_one_step(tmp_path, monkeypatch):
    enter_job(monkeypatch, Scontrol("n1", "n2", nodes="all"))
    report = prepare_nodes("srun", RANKS, tmp_path / "scratch" / "new", write_data(tmp_path / "data"))
    assert [facts.node for facts in report.nodes] == ["n1", "n2"]
    assert report.page_cache == ("dropped" if {f.page_cache for f in report.nodes} == {"dropped"} else "not_permitted")
    assert {facts.problem for facts in report.nodes} == {""}
    assert report.problem == ""
    # All nodes of this step have one file system: the first is alone there, the last sees both.
    assert [facts.nodes_here for facts in report.nodes] == [1, 2]
    assert report.share_scratch == 2
    assert {path.name for path in (tmp_path / "scratch").iterdir()} == {"new@n1", "new@n2"}
    clean_nodes("srun", RANKS, [tmp_path / "scratch" / "new"], ["attempt"])
    assert list((tmp_path / "scratch").iterdir()) == []


@pytest.mark.usefixtures("step")
def test_the_one_node_of_a_run_is_reached_by_a_step_if_it_is_another(tmp_path, monkeypatch):
    """The shell of salloc may be on a node that is none of the job."""
    enter_job(monkeypatch, Scontrol("n1", "n2", nodes="all"))
    report = prepare_nodes("spawn", HERE, tmp_path / "scratch" / "new", [])
    assert [facts.node for facts in report.nodes] == ["n1"]
    monkeypatch.setattr(nodes, "_run_step", None)
    monkeypatch.setenv("SLURMD_NODENAME", "n1")
    assert prepare_nodes("spawn", HERE, tmp_path / "scratch" / "new", []).nodes[0].node == "n1"


def test_a_node_that_cannot_drop_its_pages_in_time_goes_on_and_says_so(tmp_path, monkeypatch, caplog):
    assert nodes.DROP_LIMIT_S < nodes.PREPARE_LIMIT_S / 2
    monkeypatch.setattr(nodes, "DROP_LIMIT_S", 0.0)
    report = prepare_nodes("srun", HERE, tmp_path / "scratch" / "new", write_data(tmp_path / "data"))
    (facts,) = report.nodes
    assert (report.page_cache, facts.page_cache, report.problem) == ("kept", "kept", "")
    assert told(facts.problem, NOT_DROPPED)["files"] == "3"
    assert facts.free_bytes > 0
    assert facts.problem in caplog.text


@pytest.mark.usefixtures("step")
def test_a_node_that_does_not_answer_is_reported_and_the_others_count(tmp_path, monkeypatch):
    enter_job(monkeypatch, Scontrol("n1", "gone", nodes="all"))
    report = prepare_nodes("srun", RANKS, tmp_path / "scratch" / "new", write_data(tmp_path / "data"))
    assert [facts.node for facts in report.nodes] == ["n1"]
    assert report.page_cache == "kept"
    facts = told(report.problem, NO_ANSWER)
    assert (facts["nodes"], facts["words"]) == ("gone", "srun: error: Node failure on gone")
    assert told(facts["ending"], ENDED_WITH) == {"status": "1"}


def test_a_step_that_hangs_is_ended(tmp_path, monkeypatch):
    program = tmp_path / "srun"
    program.write_text(f"#!{sys.executable}\nimport time\ntime.sleep(600)\n")
    program.chmod(0o755)
    monkeypatch.setattr("shutil.which", lambda _: str(program))
    monkeypatch.setattr(nodes, "PREPARE_LIMIT_S", 0.3)
    enter_job(monkeypatch, Scontrol("n1", "n2", nodes="all"))
    report = prepare_nodes("srun", RANKS, tmp_path / "scratch" / "new", [])
    assert report.nodes == ()
    facts = told(report.problem, NO_ANSWER)
    assert (facts["nodes"], facts["words"]) == ("n1, n2", "no output")
    assert told(facts["ending"], ENDED_AFTER) == {"limit_s": "0.3"}


def test_without_slurm_other_nodes_are_not_reached(tmp_path):
    report = prepare_nodes("mpirun", RANKS, tmp_path / "new", [])
    assert report.page_cache == "kept"
    assert len(report.nodes) == 1
    assert told(report.problem, NOT_REACHED)["launcher"] == "mpirun"


def test_slurm_that_does_not_answer_is_a_problem_and_no_error(tmp_path, monkeypatch, caplog):
    scontrol = Scontrol()
    scontrol.failures = 99
    enter_job(monkeypatch, scontrol)
    assert "Unable to contact slurm controller" in prepare_nodes("srun", RANKS, tmp_path / "new", []).problem
    clean_nodes("srun", RANKS, [tmp_path / "new"], ["attempt"])
    assert "Unable to contact slurm controller" in told(caplog.messages[-1], NOT_CLEANED)["problem"]


def test_data_that_are_gone_and_scratch_that_cannot_be_written_are_said(tmp_path, caplog):
    (tmp_path / "file").touch()
    (facts,) = prepare_nodes("srun", HERE, tmp_path / "file" / "new", [tmp_path / "none.tar"]).nodes
    assert facts.page_cache == "not_permitted"
    assert facts.free_bytes is None
    assert "file: cannot be written" in facts.problem
    assert told(facts.problem, DATA_GONE)["reason"] == "No such file or directory"
    assert "none.tar: " in facts.problem
    assert facts.problem in caplog.text


def test_what_broken_runs_left_is_ended_before_a_run_and_said(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(nodes, "end_orphans", lambda: [71, 72])
    (facts,) = prepare_nodes("srun", HERE, tmp_path / "scratch" / "new", []).nodes
    assert facts.ended == (71, 72)
    assert told(caplog.text, ENDED_LEFT) == {"processes": "(71, 72)", "left_by": "broken runs"}


@pytest.mark.usefixtures("step")
def test_a_node_that_does_not_answer_when_it_is_cleaned_is_named(tmp_path, monkeypatch):
    enter_job(monkeypatch, Scontrol("n1", "gone", nodes="all"))
    assert clean_nodes("srun", RANKS, [tmp_path / "scratch" / "mine"], ["attempt"]) == ("gone",)


@pytest.mark.parametrize("down", [[], ["n2"]])
def test_a_step_that_reaches_not_even_this_node_accuses_none_but_those_that_slurm_lost(tmp_path, monkeypatch, down):
    program = tmp_path / "srun"
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setattr("shutil.which", lambda _: str(program))
    monkeypatch.setenv("SLURMD_NODENAME", "n1")
    enter_job(monkeypatch, Scontrol("n1", "n2", nodes="all"))
    monkeypatch.setattr(nodes, "down_nodes", lambda names: down if names == "n1,n2" else None)
    assert clean_nodes("srun", RANKS, [tmp_path / "scratch" / "mine"], ["attempt"]) == tuple(down)


@pytest.mark.parametrize("down", [[], ["n2"]])
def test_nodes_that_clean_up_slowly_are_not_lost(tmp_path, monkeypatch, caplog, down):
    program = tmp_path / "srun"
    program.write_text(f"#!{sys.executable}\nimport time\ntime.sleep(600)\n")
    program.chmod(0o755)
    monkeypatch.setattr("shutil.which", lambda _: str(program))
    monkeypatch.setattr(nodes, "CLEAN_LIMIT_S", 0.3)
    enter_job(monkeypatch, Scontrol("n1", "n2", nodes="all"))
    monkeypatch.setattr(nodes, "down_nodes", lambda names: down if names == "n1,n2" else None)
    assert clean_nodes("srun", RANKS, [tmp_path / "scratch" / "mine"], ["attempt"]) == tuple(down)
    assert told(caplog.text, ONLY_SLOW)["nodes"] == ("n1" if down else "n1, n2")


def test_without_slurm_no_node_is_accused(tmp_path):
    assert clean_nodes("mpirun", RANKS, [tmp_path / "mine"], ["attempt"]) == ()


@pytest.mark.usefixtures("step")
def test_what_is_left_of_a_run_is_ended_and_removed(tmp_path, monkeypatch, caplog):
    enter_job(monkeypatch, Scontrol("n1", "n2", nodes="all"))
    scratch = tmp_path / "scratch" / "mine"
    left_behind = [scratch.with_name(f"mine@{node}") for node in ("n1", "n2")]
    for folder in left_behind:
        leave_behind(folder)
    left = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)"], env={**os.environ, ATTEMPT_VARIABLE: "attempt 1"}
    )
    monkeypatch.setattr(nodes, "CLEAN_LIMIT_S", 60.0)
    clean_nodes("srun", RANKS, [scratch], ["attempt 1"])
    assert left.wait() == -9
    assert not any(folder.exists() for folder in left_behind)
    assert f"n1: {ENDED_LEFT(processes=(left.pid,), left_by='attempt attempt 1')}" in caplog.text


@pytest.mark.usefixtures("step")
def test_all_attempts_of_a_group_are_cleaned_by_one_step(tmp_path, monkeypatch, caplog):
    enter_job(monkeypatch, Scontrol("n1", "gone", "n2", nodes="all"))
    monkeypatch.setattr(nodes, "CLEAN_LIMIT_S", 60.0)
    real, limits = nodes._run_step, []
    monkeypatch.setattr(nodes, "_run_step", lambda *step: limits.append(step[-1]) or real(*step))
    names = ["mine-i1", "mine-i2"]
    scratches = [tmp_path / "scratch" / name for name in ("mine", *names)]
    folders = [tmp_path / "scratch" / name for name in ("mine@n1", "mine@n2", "mine-i1@n1", "mine-i2@n2")]
    for folder in folders:
        leave_behind(folder)
    wait = [sys.executable, "-c", "import time; time.sleep(600)"]
    left = [subprocess.Popen(wait, env={**os.environ, ATTEMPT_VARIABLE: name}) for name in names]
    ranks = Ranks("b/v/w", nodes=3, ranks_per_node=1, cores_per_rank=1)
    assert clean_nodes("srun", ranks, scratches, names) == ("gone",)
    assert limits == [60.0]
    assert [process.wait() for process in left] == [-9, -9]
    assert not any(folder.exists() for folder in folders)
    facts = told(caplog.text, ENDED_LEFT)
    assert set(facts["processes"].strip("()").split(", ")) == {str(process.pid) for process in left}
    assert facts["left_by"].endswith(ranks.name)


def test_a_foreign_folder_is_left_and_it_is_said(tmp_path, caplog):
    own = own_stage(tmp_path / "mine")
    own.mkdir()
    (own / "thesis").touch()
    clean_nodes("srun", HERE, [tmp_path / "mine"], ["attempt"])
    assert (own / "thesis").exists()
    told(caplog.text, FOREIGN_FOLDER)


@pytest.mark.usefixtures("step")
def test_the_nodes_of_instances_are_those_of_their_shares(tmp_path, monkeypatch):
    enter_job(monkeypatch, Scontrol("n1", "n2", "n3", nodes="all"))
    ranks = Ranks("w", 1, 1, 1, (NodeShare(host="n3", cores=(0,)),))
    assert [facts.node for facts in prepare_nodes("srun", ranks, tmp_path / "new", []).nodes] == ["n3"]


def test_answers_are_short_enough_to_stay_whole():
    facts = nodes._facts(swept=["20261122T043718Z-abcdef-i10"] * 99, ended=range(10**6, 10**6 + 99), problem="x" * 9999)
    assert (facts.swept, len(facts.swept_names)) == (99, nodes.MOST_NAMES)
    assert len(facts.model_dump_json()) < 1024
    assert NodeFacts.model_validate_json(facts.model_dump_json()) == facts
