"""The note records who started the workflow, how to restart it, and its plan; earlier starts are kept."""

import pytest
from unit.campaign.result_folders import campaign

from hpcai.campaign.controller_note import KEPT_STARTS, NOTE, read_note, this_controller, write_note
from hpcai.campaign.run_folders import planned_folders
from hpcai.core.errors import RecordError

COMMAND = ("/some/where/bin/snakemake", "--profile", "slurm", "--config", "title=two words")


def write(results, command=COMMAND):
    return write_note(campaign(), results, command, this_controller("run-7"))


def test_note_is_read_back_and_repeats_the_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    written = write(tmp_path / "results")
    note = read_note(tmp_path / "results")
    assert note == written
    assert note.shown_command == "snakemake --profile slurm --config 'title=two words'"
    assert note.working_folder == ".."
    assert note.controller.slurm_run_id == "run-7"
    assert (
        note.controller.holder
        == this_controller().model_copy(update={"started_utc": note.controller.started_utc}).holder
    )


def test_started_as_a_module(tmp_path):
    assert write(tmp_path, ("/a/site-packages/snakemake/__main__.py", "-n")).command == ("snakemake", "-n")


def test_command_without_its_targets(tmp_path):
    def rest(*words, targets):
        note = write_note(campaign(), tmp_path, ("snakemake", *words), this_controller(), frozenset(targets))
        return note.command_with(targets=False)

    assert rest("--profile", "slurm", "a", "b", "-k", targets="ab") == "snakemake --profile slurm -k"
    assert rest("a", "--prioritize", "a", targets="a") == "snakemake --prioritize a"
    # It is ambiguous which of them is the target.
    assert rest("--prioritize", "a", "-k", "a", targets="a") == "snakemake --prioritize a -k a"
    # Not of what is left out.
    assert rest("a", "--until", "a", targets="a") == "snakemake"
    assert rest("--until", "a", "-k", "a", targets="a") == "snakemake -k"
    assert rest("--profile", "slurm", targets="") == "snakemake --profile slurm"


def test_options_come_before_what_is_no_option(tmp_path):
    note = write(tmp_path, ("snakemake", "--config", "a=b", "--", "measure"))
    assert note.command_with("--unlock") == "snakemake --config a=b --unlock -- measure"
    assert write(tmp_path).command_with("--unlock").endswith("'title=two words' --unlock")


def test_what_was_meant_for_one_start_is_noted_but_not_repeated(tmp_path):
    command = ("snakemake", "acceptance", "--profile", "slurm", "--forcerun", "measure_acceptance")
    write_note(campaign(), tmp_path, command, this_controller(), {"acceptance"})
    note = read_note(tmp_path)
    assert note.command == command
    assert note.shown_command == "snakemake acceptance --profile slurm"
    assert note.command_with("--unlock") == "snakemake acceptance --profile slurm --unlock"
    assert note.command_with(targets=False) == "snakemake --profile slurm"


def test_planned_folders_are_those_of_the_plans(tmp_path):
    study, planned = campaign(), write(tmp_path).planned
    folders = planned_folders(tmp_path, planned.points)
    timed = {f"runs/{run_id}" for run_id in study.plans()}
    profiled = {f"profiles/{kind}/{run}" for kind in ("timeline", "counters") for run in study.profiles(kind)}
    groups = {f"weak/{run_id.rpartition('/')[0]}" for run_id in study.weak_plans()}
    assert {*timed, *profiled, *groups} <= set(folders)
    assert {name for name in folders if name.startswith("runs/")} == timed
    assert folders["weak/cosmoflow_mini/fp32/n1x1"].instances == 2
    assert {folder.run_limit_s for folder in folders.values()} == {300.0}
    assert [file for dataset in planned.datasets for file in dataset.files()] == [
        "data/cosmoflow_mini/manifest.json",
        "data/cosmoflow_mini/packed/packed.json",
    ]


def test_study_that_only_analyses_plans_no_run(tmp_path):
    study = campaign()
    only_analyses = study.study.model_copy(update={"measure": False})
    object.__setattr__(study, "study", only_analyses)
    assert write_note(study, tmp_path, COMMAND, this_controller()).planned.points == ()


def test_last_starts_are_kept(tmp_path):
    for number in range(KEPT_STARTS + 3):
        write(tmp_path, ("snakemake", "-j", str(number)))
    kept = [start.command[-1] for start in read_note(tmp_path).earlier]
    assert kept == [str(number) for number in range(2, KEPT_STARTS + 2)]


def test_damaged_note_is_named_and_written_anew(tmp_path):
    write(tmp_path)
    (tmp_path / NOTE).write_text("{")
    with pytest.raises(RecordError, match=r"campaign\.json: damaged .* writes it anew"):
        read_note(tmp_path)
    assert write(tmp_path).earlier == ()


def test_no_note(tmp_path):
    assert read_note(tmp_path) is None
