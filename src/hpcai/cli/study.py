"""Commands for a study before it runs: its schema, validity, rules, and cost estimate."""

import json as json_text
from pathlib import Path
from typing import Annotated

import typer

from hpcai.cli.options import Command, argument, count, flag, option

app = typer.Typer(rich_markup_mode=None, add_completion=False)
STUDY = Path("config/study.yaml")


@app.command(cls=Command)
def schema() -> None:
    """Print the JSON schema of all configuration files."""
    from hpcai.config.schema import json_schema

    print(json_text.dumps(json_schema(), indent=1))


@app.command(cls=Command)
def check(
    study: Annotated[Path, argument("STUDY", "study file")] = STUDY,
    profile: Annotated[
        str | None, option("NAME", "ask Slurm whether it would accept each kind of job that this profile submits")
    ] = None,
) -> None:
    """Check a study and all files that it names."""
    from hpcai.config.load import load_study_file
    from hpcai.setup.files import machine_file, open_gaps

    campaign = load_study_file(study)
    groups = f", {len(campaign.weak_rows)} weak-scaling groups" if campaign.weak_rows else ""
    print(f"{study}: valid; {len(campaign.plans())} runs of {len(campaign.benchmarks)} benchmarks{groups}")
    files = [machine_file(campaign, study)]
    if profile:
        from hpcai.campaign.sbatch_trial import find_profile, try_profile

        files.append(find_profile(profile))
    for gap in open_gaps(files):
        print(gap)
    if profile:
        print(try_profile(campaign, study, profile))


@app.command("init", cls=Command)
def write_study(
    folder: Annotated[Path, argument("FOLDER", "a new or empty folder")],
    here: Annotated[bool, flag("--here", "detect Slurm, nodes, accelerators, disks and MPI first")] = False,
    partition: Annotated[str, option("NAME", "Slurm partition, with --here (default: Slurm's default)")] = "",
    account: Annotated[str, option("NAME", "Slurm account, with --here (default: your default account)")] = "",
    machine: Annotated[str, option("NAME", "name of the machine file")] = "",
) -> None:
    """Write a study with its machine, run table and profile into a new folder."""
    from hpcai.setup.command import init

    print(init(folder, here=here, partition=partition, account=account, machine=machine))


@app.command(cls=Command)
def rules(
    study: Annotated[Path | None, argument("STUDY", "study file; without it, the rules are printed")] = None,
) -> None:
    """Print the rules of the suites, or the levels and divisions that a study can be valid for."""
    from hpcai.config.load import load_study_file
    from hpcai.rules.listing import list_rules, list_verdicts

    print(list_verdicts(load_study_file(study)) if study else list_rules())


@app.command(cls=Command)
def estimate(
    study: Annotated[Path, argument("STUDY", "study file")] = STUDY,
    like: Annotated[
        list[Path] | None,
        option(
            "RESULTS...",
            "results folders with runs from which to estimate times, in addition to the study's own",
        ),
    ] = None,
    results: Annotated[Path, option("DIR", "results folder of the study")] = Path("results"),
    data: Annotated[Path, option("DIR", "folder of the datasets")] = Path("data"),
    jobs: Annotated[
        int | None, option("N", parser=count, words="also estimate the wall time with N jobs in parallel")
    ] = None,
    json: Annotated[Path | None, option("FILE", "write all numbers with their methods and sources")] = None,
) -> None:
    """Estimate the cost of a study: node-hours, storage, files."""
    from dataclasses import asdict

    from hpcai.campaign.estimate import Places, estimate_campaign
    from hpcai.campaign.estimate_text import say_estimate
    from hpcai.config.load import load_study_file
    from hpcai.core.checkout import source_root
    from hpcai.core.errors import ConfigError
    from hpcai.core.files import write_asked_json

    likely = like or []
    for folder in likely:
        if not folder.is_dir():
            raise ConfigError(f"--like: found no folder {folder}, expected the results folder of an earlier study")
    campaign = load_study_file(study)
    root = source_root()
    config = root / "config" if root else study.parent
    estimate = estimate_campaign(campaign, Places(data, results, config / "datasets.tsv"), likely, jobs)
    if json:
        write_asked_json(json, asdict(estimate))
    print(say_estimate(estimate))
