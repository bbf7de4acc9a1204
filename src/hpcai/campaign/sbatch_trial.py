"""Ask Slurm before submission whether it would accept each kind of job of a study (sbatch --test-only)."""

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from hpcai.campaign.child import snakemake_program
from hpcai.config.plans import Campaign
from hpcai.config.reading import Problems, read_yaml
from hpcai.config.study import config_dir_setting, configuration_folder
from hpcai.core.checkout import source_root
from hpcai.core.errors import ConfigError
from hpcai.core.messages import Message, at
from hpcai.slurm.sbatch_request import (
    ACCEPTANCE,
    FROM_ACCEPTANCE,
    FROM_STUDY,
    REMEDIES,
    RUNS,
    WHOLE_NODES,
    Request,
    key_of,
    sbatch_options,
)

NOT_TAKEN = Message("sbatch_trial.not_taken", "Slurm rejects {options!r} for")
REFUSED = Message("sbatch_trial.refused", "found {found}{unit}, which Slurm rejects for")
WOULD_TAKE_ALL = Message("sbatch_trial.would_take_all", "Slurm would accept all kinds of jobs ({rules})")

ANSWER_LIMIT_S = 60.0
TAIL = 15
"""Number of Snakemake's output lines shown if it fails."""
SNAKEFILES = ("Snakefile", "workflow/Snakefile")
"""Default locations of Snakemake's workflow."""
_FILE = re.compile(r"(?:profile|config)(?:\.v(?P<version>\d+)\+)?\.yaml")


def try_profile(campaign: Campaign, study: Path, profile: str) -> str:
    """Ask Slurm about each kind of job that a study would submit through a profile; nothing is submitted.

    Parameters
    ----------
    campaign, study
        The checked study, and its file.
    profile
        Profile of Snakemake: its name, or its folder or file.

    Returns
    -------
    str
        What was asked, in one sentence.

    Raises
    ------
    ConfigError
        If Slurm would reject a kind of job; names file, key, Slurm's message, and the change needed. Also if the
        profile or sbatch does not exist, or Snakemake refuses the study.
    """
    file = find_profile(profile)
    settings = _read_profile(file)
    if settings.get("executor") != "slurm":
        return f"{file}: submits nothing to Slurm (executor: {settings.get('executor', 'none')})"
    if shutil.which("sbatch") is None:
        raise ConfigError("sbatch: no such program on the PATH; run this where jobs are submitted")
    requests = list(_requests(_dry_run(campaign, study, profile)))
    refusals = [(request, words) for request in requests if (words := _refusal(request, settings))]
    if refusals:
        raise ConfigError("\n".join(_lines(file, settings, refusals)))
    return at(str(file), WOULD_TAKE_ALL(rules=", ".join(rule for one in requests for rule in one.rules)))


def find_profile(name: str) -> Path:
    """Return the file of a profile, searched like Snakemake does.

    Raises
    ------
    ConfigError
        If there is none of this name.
    """
    home = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    places = [Path(), home / "snakemake", Path("/etc/xdg/snakemake")]
    for place in places:
        found = place / name
        if found.is_file():
            return found
        if files := [file for file in found.glob("*.yaml") if _FILE.fullmatch(file.name)]:
            return max(files, key=_version)
    looked = ", ".join(str(place) for place in places[1:])
    raise ConfigError(f"--profile: found no {name!r}, expected a profile of Snakemake: a folder, or one in {looked}")


def _version(file: Path) -> int:
    found = _FILE.fullmatch(file.name)
    return int((found and found["version"]) or 0)


def _read_profile(file: Path) -> dict[str, Any]:
    problems = Problems()
    settings = read_yaml(file, problems)
    problems.raise_if_any()
    if not isinstance(settings, dict):
        raise ConfigError(f"{file}: found no keys, expected those of a profile of Snakemake")
    return settings


def _dry_run(campaign: Campaign, study: Path, profile: str) -> list[dict[str, Any]]:
    """Return what Snakemake would do with the study, finished or not, as events of its journal."""
    root = source_root()
    own = any(map(os.path.exists, SNAKEFILES))
    there = [] if own or root is None else ["--snakefile", str(root / "Snakefile")]
    measured = campaign.study.predict.measured_files(campaign.machine.name)
    targets = ["all", *(["predict", "regressors"] if any(measured.values()) else [])]
    targets += ["acceptance"] if campaign.study.measure else []
    command = [snakemake_program(), *targets, "--profile", profile, "--configfile", str(study), *there]
    folder = configuration_folder(study, campaign.study.config_dir)
    command += ["--config", config_dir_setting(folder), "--dry-run", "--forceall", "--nolock"]
    with tempfile.NamedTemporaryFile("r") as journal:
        environment = {**os.environ, "HPCAI_JOURNAL": journal.name}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        if done.returncode:
            said = (done.stdout + done.stderr).strip().splitlines()
            raise ConfigError("\n".join(["snakemake does not start with this study and profile:", *said[-TAIL:]]))
        return [json.loads(line) for line in journal]


def _requests(events: Iterable[dict[str, Any]]) -> Iterator[Request]:
    """Yield each kind of job to submit: its request, and its rules."""
    here: set[str] = set()
    kinds: dict[str, tuple[dict[str, Any], list[str]]] = {}
    for event in events:
        if event["event"] == "run_info":
            here = set(event["here"])
        elif event["event"] == "job_info" and event["rule"] not in here:
            # The folder for temporary files is determined where the job runs.
            asked = {name: value for name, value in event["resources"].items() if name != "tmpdir"}
            kind = json.dumps([asked, event["threads"], asked.get(WHOLE_NODES) and event["rule"]], sort_keys=True)
            kinds.setdefault(kind, (event | {"resources": asked}, []))[1].append(event["rule"])
    for event, rules in kinds.values():
        yield Request(tuple(dict.fromkeys(rules)), event["resources"], event["threads"])


def _refusal(request: Request, settings: dict[str, Any]) -> str:
    """Return why Slurm would reject a job; blank if it would accept it."""
    command = ["sbatch", "--test-only", *sbatch_options(request, settings), "--wrap=true"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=ANSWER_LIMIT_S)
    except subprocess.TimeoutExpired:
        raise ConfigError(f"sbatch --test-only: no answer within {ANSWER_LIMIT_S:g} s; try again later") from None
    if done.returncode == 0:
        return ""
    lines = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
    return re.sub(r"^(?:sbatch: error: |allocation failure: |sbatch: )+", "", lines[-1] if lines else "no reason given")


def _lines(file: Path, settings: dict[str, Any], refusals: Iterable[tuple[Request, str]]) -> list[str]:
    """Return one line per necessary change, with all the jobs that Slurm rejects for it."""
    rules: dict[tuple[str, str], list[str]] = {}
    for request, words in refusals:
        rules.setdefault(_say(file, settings, request, words), []).extend(request.rules)
    return [f"{what} {', '.join(dict.fromkeys(names))} {why}" for (what, why), names in rules.items()]


def _say(file: Path, settings: dict[str, Any], request: Request, words: str) -> tuple[str, str]:
    """Return the place of the rejected setting with its value; and Slurm's message with the change needed."""
    key = key_of(words)
    if not key:
        asked = " ".join(sbatch_options(request, settings))
        return at(str(file), NOT_TAKEN(options=asked)), f"({words}); change what these jobs ask for"
    place, found = _place(file, settings, request, key), request.resources.get(key, "nothing")
    longest = f"; {limit}" if key == "runtime" and (limit := _partition_limit(request)) else ""
    unit = " minutes" if key == "runtime" else ""
    return at(str(place), REFUSED(found=found, unit=unit)), f"({words}){longest}; {REMEDIES[key]}"


def _place(file: Path, settings: dict[str, Any], request: Request, key: str) -> str:
    """Return the place where a resource of a job is set."""
    rule = request.rules[0]
    if key in _mapping(_mapping(settings.get("set-resources")).get(rule)):
        return f"{file}: set-resources.{rule}.{key}"
    if rule == ACCEPTANCE and key in FROM_ACCEPTANCE:
        return FROM_ACCEPTANCE[key]
    own = f"{file}: set-resources.{rule}.{key}, to be set for this job"
    if WHOLE_NODES in request.resources and key == "runtime":
        return "limits.run_s of the study (with limits.disturbance.repeats, and ten minutes)" if rule in RUNS else own
    if WHOLE_NODES in request.resources and key in FROM_STUDY:
        return FROM_STUDY[key]
    if WHOLE_NODES in request.resources and key == "slurm_extra":
        return own
    return f"{file}: default-resources.{key}"


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _partition_limit(request: Request) -> str:
    """Return the partition's time limit in words; blank if Slurm does not report it."""
    command = ["sinfo", "--noheader", "--format=%P %l"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=ANSWER_LIMIT_S)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    asked = request.resources.get("slurm_partition")
    for line in done.stdout.splitlines():
        name, _, limit = line.partition(" ")
        if name.removesuffix("*") == asked or (not asked and name.endswith("*")):
            return f"partition {name.removesuffix('*')} allows {limit}"
    return ""
