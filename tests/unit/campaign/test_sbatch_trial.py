"""The request to Slurm before any job is submitted, and the cause of its refusal."""

import json
import shlex
from dataclasses import replace
from types import SimpleNamespace

import pytest
import yaml
from snakemake_executor_plugin_slurm.submit_string import get_submit_command
from snakemake_executor_plugin_slurm.utils import set_gres_string
from unit.campaign.result_folders import CONFIG, campaign
from unit.refusals import told

from hpcai.campaign import sbatch_trial
from hpcai.campaign.sbatch_trial import NOT_TAKEN, REFUSED, find_profile, try_profile
from hpcai.core.errors import ConfigError
from hpcai.slurm.sbatch_request import CHANGE_REQUEST, REFUSALS, REMEDIES, Request, advise, key_of, sbatch_options

TIME = "Requested time limit is invalid (missing or exceeds some limit)"
ORDINARY = {"mem_mb": 4000, "disk_mb": 1000, "runtime": 240, "slurm_extra": "--no-requeue", "launcher": "horovodrun"}
WHOLE = {
    "nodes": 2, "mpi": "launcher", "runtime": 15, "tasks_per_node": 64, "cpus_per_task": 1, "mem_mb": 262144,
    "slurm_extra": "--exclusive --no-requeue", "launcher": "srun",
}  # fmt: skip
GPU = {**WHOLE, "gres": "gpu:4", "tasks_per_gpu": 0, "slurm_partition": "gpu", "constraint": "a100", "qos": "high"}


class Resources(dict):
    """Resources as the plugin reads them."""

    __getattr__ = dict.__getitem__


def plugin_options(asked, threads):
    """The options that Snakemake's executor plugin gives sbatch, each as --name=value."""
    job = SimpleNamespace(resources=Resources(asked), threads=threads)
    account = f"-A {asked['slurm_account']}" if "slurm_account" in asked else ""
    partition = f"-p {asked['slurm_partition']}" if "slurm_partition" in asked else ""
    params = {"run_uuid": "u", "slurm_logfile": "l", "comment_str": "c", "account": account, "partition": partition}
    text = get_submit_command(job, {**params, "workdir": ""}) + set_gres_string(job)
    words, options = shlex.split(text)[1:], []
    long = {"-A": "--account", "-p": "--partition", "-t": "--time", "-C": "--constraint"}
    while words:
        word = words.pop(0)
        value = words.pop(0) if words and not words[0].startswith("-") else None
        options.append(long.get(word, word) + ("" if value is None else f"={value}"))
    about = ("--parsable", "--job-name", "--output", "--export", "--comment")
    return {option for option in options if not option.startswith(about)}


@pytest.mark.parametrize(
    "asked",
    [ORDINARY, WHOLE, GPU, {**ORDINARY, "slurm_account": "mine", "cpus_per_task": 3}],
    ids=len,
)
def test_slurm_is_asked_what_the_plugin_will_ask(asked):
    assert set(sbatch_options(Request(("x",), asked, 4), {})) == plugin_options(asked, 4)


def test_keys_of_the_profile_for_all_jobs_are_asked_as_well():
    options = sbatch_options(
        Request(("x",), ORDINARY, 1), {"slurm-qos": "low", "slurm-reservation": "r", "slurm-requeue": True}
    )
    assert {"--qos=low", "--reservation=r", "--requeue"} <= set(options)


@pytest.mark.parametrize(
    ("words", "key"),
    [
        (TIME, "runtime"),
        ("Invalid account or account/partition combination specified", "slurm_account"),
        ("invalid partition specified: nowhere", "slurm_partition"),
        ("Invalid qos specification", "qos"),
        ("Invalid feature specification", "constraint"),
        ("Invalid generic resource (gres) specification", "gres"),
        ("Memory specification can not be satisfied", "mem_mb"),
        ("Node count specification invalid", "nodes"),
        ("Requested node configuration is not available", "tasks_per_node"),
        ("Requested reservation is invalid", "slurm_extra"),
        ("Job violates a site's filter", ""),
    ],
)
def test_a_refusal_is_about_a_key(words, key):
    assert key_of(words) == key
    assert (key or CHANGE_REQUEST()) in advise(words)


def test_each_key_has_a_remedy():
    assert {key for _, key in REFUSALS} <= set(REMEDIES)


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A profile, a Slurm whose partition allows an hour, and a workflow with jobs of two kinds."""
    profile = {"executor": "slurm", "default-resources": {"runtime": 240, "slurm_partition": "short"}}
    folder = tmp_path / "home/snakemake/there"
    folder.mkdir(parents=True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.chdir(tmp_path)
    asked = tmp_path / "asked"
    sbatch = tmp_path / "sbatch"
    # Refuses jobs longer than an hour.
    sbatch.write_text(
        f'#!/bin/sh\necho "$@" >> {asked}\nfor word; do case $word in --time=*) limit=${{word#--time=}};; esac; done\n'
        f'[ "$limit" -le 60 ] || {{ echo "allocation failure: {TIME}" >&2; exit 1; }}\n'
    )
    sinfo = tmp_path / "sinfo"
    sinfo.write_text('#!/bin/sh\necho "cpu* 1-00:00:00"\necho "short 1:00:00"\n')
    for program in (sbatch, sinfo):
        program.chmod(0o755)
    events = [{"event": "run_info", "here": ["report"]}]

    def job(rule, **resources):
        events.append({"event": "job_info", "rule": rule, "resources": {"tmpdir": "/tmp", **resources}, "threads": 1})

    def write(**changes):
        (folder / "config.yaml").write_text(yaml.safe_dump({**profile, **changes}))
        return folder / "config.yaml"

    monkeypatch.setattr(sbatch_trial, "_dry_run", lambda *_: events)
    write()
    return SimpleNamespace(job=job, write=write, file=folder / "config.yaml", asked=asked)


def ask(site):
    return try_profile(campaign(), CONFIG / "weak.yaml", "there")


def test_what_slurm_would_take_is_well(site):
    site.job("report", runtime=9999)  # runs here
    site.job("pack_data", runtime=60)
    site.job("pack_data", runtime=60)
    site.job("train", **{**WHOLE, "runtime": 15})
    said = ask(site)
    assert str(site.file) in said
    assert "pack_data, train" in said
    assert len(site.asked.read_text().splitlines()) == 2  # kinds of jobs, not jobs
    assert "--test-only" in site.asked.read_text()
    assert "tmpdir" not in site.asked.read_text()


def test_a_refused_default_is_named_with_file_key_words_and_cure(site):
    common = {"runtime": 240, "slurm_partition": "short"}
    for rule in ("prepare_data", "pack_data"):
        site.job(rule, **common)
    site.job("train", **{**WHOLE, **common, "runtime": 15})
    with pytest.raises(ConfigError) as error:
        ask(site)
    (line,) = str(error.value).splitlines()
    assert line.startswith(
        f"{site.file}: default-resources.runtime: {REFUSED(found=240, unit=' minutes')} prepare_data"
    )
    assert "prepare_data, pack_data" in line
    assert TIME in line
    assert "partition short allows 1:00:00" in line
    assert "lower it" in line


@pytest.mark.parametrize(
    ("rule", "place"),
    [
        ("train", "limits.run_s of the study"),
        ("measure_acceptance", "acceptance.limit_s of the study"),
        ("measure_ceiling", "set-resources.measure_ceiling.runtime"),
    ],
)
def test_what_a_run_asks_for_is_set_in_the_study(site, rule, place):
    site.job(rule, **{**WHOLE, "runtime": 75})
    with pytest.raises(ConfigError, match=place):
        ask(site)
    site.write(**{"set-resources": {rule: {"runtime": 75}}})
    with pytest.raises(ConfigError, match=rf"config.yaml: set-resources.{rule}.runtime: found 75 minutes"):
        ask(site)


@pytest.mark.parametrize("measure", [True, False])
def test_slurm_is_asked_about_the_acceptance_too(tmp_path, monkeypatch, measure):
    """A study that only analyses has none."""
    words, program = tmp_path / "words", tmp_path / "snakemake"
    program.write_text(f'#!/bin/sh\necho "$@" > {words}\n')
    program.chmod(0o755)
    monkeypatch.setattr(sbatch_trial, "snakemake_program", lambda: str(program))
    known = campaign()
    study = known.study.model_copy(update={"measure": measure})
    assert sbatch_trial._dry_run(replace(known, study=study), CONFIG / "weak.yaml", "there") == []
    targets = words.read_text().partition("--profile")[0].split()
    assert ("acceptance" in targets) == measure
    assert "all" in targets


def test_words_that_are_not_known_are_told_with_all_that_was_asked(site, tmp_path):
    (tmp_path / "sbatch").write_text("#!/bin/sh\necho 'sbatch: error: not on a Friday' >&2\nexit 1\n")
    site.job("pack_data", runtime=60, mem_mb=4000)
    with pytest.raises(ConfigError) as error:
        ask(site)
    assert "--mem=4000" in told(str(error.value), NOT_TAKEN)["options"]
    assert "pack_data (not on a Friday)" in str(error.value)


def test_a_profile_without_slurm_has_nothing_to_ask(site):
    site.write(executor="local")
    assert "submits nothing to Slurm" in ask(site)


def test_without_sbatch_nobody_can_be_asked(site, tmp_path, monkeypatch):
    (tmp_path / "sbatch").unlink()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="sbatch: no such program"):
        ask(site)


def test_profiles_are_found_as_snakemake_does(site, tmp_path, monkeypatch):
    from snakemake.cli import get_profile_dir

    newer = site.file.with_name("config.v8+.yaml")
    newer.write_text(json.dumps({"executor": "slurm"}))
    (tmp_path / "local").mkdir()
    (tmp_path / "local/config.yaml").write_text("executor: local\n")
    for name in ("there", "local", str(site.file), str(site.file.parent)):
        assert find_profile(name).resolve() == get_profile_dir(name)[1].resolve()
    with pytest.raises(ConfigError, match="--profile: found no 'nowhere'"):
        find_profile("nowhere")
