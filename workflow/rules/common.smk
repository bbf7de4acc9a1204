"""Checks the whole configuration before any job starts, and determines the files that each target needs."""

import os
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError

from hpcai.campaign.library_digest import library_digest
from hpcai.catalogue.profiles import PROFILES
from hpcai.config.load import load_campaign, read_settings, refuse_loose_files
from hpcai.config.study import config_dir_setting, configuration_folder, named_folder
from hpcai.core.errors import ConfigError
from hpcai.core.programs import let_be_found
from hpcai.core.sealed import KEY

if workflow.is_main_process:
    from hpcai.measure.publish import refuse_changed


# Rules call these, and snakemake may have been called by its path.
let_be_found("hpcai", "python", "snakemake")


def checked(check, *arguments):
    """Return the result of a check; a configuration error stops Snakemake with its own message."""
    try:
        return check(*arguments)
    except ConfigError as error:
        raise WorkflowError(str(error)) from None


def checkout():
    """Return the folder of this workflow and its library, also when another workflow uses this one as a module."""
    rules = Path(str(workflow.current_basedir.get_path_or_uri(secret_free=True)))
    if rules.is_dir():
        return rules.parents[1]
    from hpcai.core.checkout import source_root

    root = source_root()
    if root is None:
        raise WorkflowError(
            "HPC-AI Bench as a module: found neither its files on this machine nor a checkout that its library runs "
            "from; clone it, call `make env` there, and name its workflow/Snakefile in `module ...: snakefile:`"
        )
    return root


ROOT = checkout()
DEFAULT_STUDY = str(ROOT / "config/study.yaml")

# Load the default study only if none was given: Snakemake would fill missing keys of another study from it.
if "name" not in config:

    configfile: DEFAULT_STUDY

    # Snakemake reads no such file for a module with its own settings.
    config.update({**checked(read_settings, DEFAULT_STUDY), **config})


wildcard_constraints:
    benchmark="[a-z][a-z0-9_]*",
    dataset="[a-z][a-z0-9_]*",
    variant="[a-z][a-z0-9_]*",
    scale=r"n\d+x\d+",
    link=r"n\d+x\d+(_[a-z]+)?",
    repetition=r"r\d+",
    instance=r"i\d+",
    profile="|".join(PROFILES),
    round=r"[A-Za-z0-9][A-Za-z0-9_.-]*",
    place="results|results/rounds_page",


# Snakemake has read these files already, but accepts input that `hpcai check` rejects, such as duplicate keys.
if workflow.is_main_process:
    checked(refuse_loose_files, workflow.configfiles)
# A study written by an earlier start (results/study.json) ends with its digest, which was checked above.
config.pop(KEY.decode(), None)
# As for `hpcai check`: a study's machines and tables are beside or above its file; only a study elsewhere takes the clone's.
CONFIGURATION = ROOT / "config"
if workflow.configfiles:
    CONFIGURATION = configuration_folder(
        Path(workflow.configfiles[-1]), otherwise=CONFIGURATION
    )
CAMPAIGN = checked(load_campaign, config, CONFIGURATION)
PLANS = CAMPAIGN.plans()
PROFILE_PLANS = {profile: CAMPAIGN.profiles(profile) for profile in PROFILES}
WEAK_PLANS = CAMPAIGN.weak_plans()
# Any attempt to change a finished run stops here. The controller has checked this, so the jobs need not. A run that was
# measured while the machine file declared other facts, which change no run, keeps those: the file as it was then, by run.
DECLARED_THEN = {}
if workflow.is_main_process:
    DECLARED_THEN = checked(
        refuse_changed,
        [
            (Path("results/runs"), PLANS),
            (Path("results/weak"), WEAK_PLANS),
            *(
                (Path("results/profiles", kind), plans)
                for kind, plans in PROFILE_PLANS.items()
            ),
        ],
    )
# Write the defaults back into the configuration, so that the report shows the settings actually used.
config.update(CAMPAIGN.study.model_dump(mode="json"))


def present_or_planned(files):
    """Files of the measuring stages: all of them or, with `measure: false`, the existing ones."""
    return [file for file in files if CAMPAIGN.study.measure or Path(file).exists()]


DATASETS = CAMPAIGN.datasets
MANIFESTS = [f"data/{dataset}/manifest.json" for dataset in DATASETS]
PACKS = [
    f"data/{dataset}/packed/packed.json"
    for dataset, benchmark in DATASETS.items()
    if benchmark.is_packed
]
RECORDS = [f"results/runs/{run_id}/record.json" for run_id in PLANS]
# Weak-scaling groups: several instances each, which one job measures at the same time.
WEAK_GROUPS = present_or_planned(
    sorted({f"results/weak/{Path(run_id).parent}/group.json" for run_id in WEAK_PLANS})
)
CAPTURES = present_or_planned(
    [
        f"results/profiles/{profile}/{run_id}/capture.json"
        for profile, plans in PROFILE_PLANS.items()
        for run_id in plans
    ]
)
CEILINGS = present_or_planned(
    expand(
        "results/characterise/{ceiling}.json",
        ceiling=["gemm", "convolution", "memory", "storage"],
    )
)
CEILING_THREADS = sorted(
    {CAMPAIGN.machine.cores_per_rank, CAMPAIGN.machine.cores_per_node}
)
LINK_POINTS = {row.link_name: row for row in CAMPAIGN.rows if row.ranks > 1}
LINKS = present_or_planned(
    [f"results/characterise/allreduce_{link}.json" for link in LINK_POINTS]
)
# A benchmark without a row in the run table, or analysed without a record, has no run to characterise.
WITH_RECORDS = {record.split("/", 3)[2] for record in present_or_planned(RECORDS)}
MEASURED = dict.fromkeys(
    row.benchmark for row in CAMPAIGN.rows if row.benchmark in WITH_RECORDS
)
WORK = present_or_planned(
    [f"results/characterise/work/{benchmark}.json" for benchmark in MEASURED]
)
HPC_AI500_BENCHMARKS = [
    name for name in MEASURED if CAMPAIGN.benchmarks[name].suite == "hpc_ai500"
]
PUBLISHED = [str(path) for path in CAMPAIGN.published]
RANKED_STUDIES = [os.path.expandvars(folder) for folder in CAMPAIGN.study.rank_with]
EARLIER_STUDIES = [os.path.expandvars(folder) for folder in CAMPAIGN.study.compare_with]
# Outputs of HPL and HPL-MxP that the site names; one that is not there is a row with its reason.
HPL_OUTPUTS = [
    os.path.expandvars(file)
    for file in (CAMPAIGN.machine.hpl.outputs if CAMPAIGN.machine.hpl else ())
]
CHARACTERISATIONS = [*CEILINGS, *LINKS, *WORK, *CAPTURES]
# Files of each kind of profile that contain a view.
VIEW_FILES = {
    view: [
        f"results/characterise/{kind}/{view}.parquet"
        for kind, facts in PROFILES.items()
        if view in facts.views
    ]
    for view in sorted({view for facts in PROFILES.values() for view in facts.views})
}


# Rules with a job for each run and each dataset.
TRAINING = {"prepare_data", "pack_data", "train", "train_together"}


def is_training_job():
    """Whether this Snakemake is the job of a run or of its data, which no rule after these concerns."""
    if workflow.is_main_process or not workflow.modifier.is_main_snakefile():
        return False
    # The executor's command names the job's rules; Snakemake's own settings are not there yet.
    _, _, after = " ".join(sys.argv).partition(" --allowed-rules ")
    allowed = set(after.partition(" -")[0].split())
    return bool(allowed) and allowed <= TRAINING


def library_of(script):
    """Tell a digest of what a script, or a runnable module, loads of the library: Snakemake does not notice edits there.

    It is computed for the rules that have jobs: a job's own Snakemake reads all rules, and has one.
    """
    return lambda wildcards: library_digest(ROOT / script, ROOT / "src")
