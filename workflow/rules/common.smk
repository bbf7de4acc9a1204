"""Checks the whole configuration before any job exists, and says which files each target needs."""

import functools
import hashlib
import json
import os
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.logging import logger

from hpcai import catalogue
from hpcai.campaign.controller_note import this_controller, write_note
from hpcai.campaign.library_digest import library_digest
from hpcai.campaign.live import wait_until_idle
from hpcai.characterise.subprocess_measure import say_lacking_cores
from hpcai.characterise.views import PROFILE_VIEWS, VIEWS
from hpcai.config.load import load_campaign, plan_text, refuse_loose_files
from hpcai.config.rounds import find_round, name_round
from hpcai.config.runs import PROFILES
from hpcai.config.sharing import Sharing
from hpcai.errors import ConfigError
from hpcai.measure.publish import kept_plan, refuse_changed
from hpcai.sealed import KEY, unseal

ROOT = Path(workflow.basedir)

# The default study only if none was given: Snakemake would fill the gaps of another study with its settings.
if "name" not in config:

    configfile: workflow.source_path("../../config/study.yaml")


wildcard_constraints:
    benchmark="[a-z][a-z0-9_]*",
    dataset="[a-z][a-z0-9_]*",
    variant="[a-z][a-z0-9_]*",
    scale=r"n\d+x\d+",
    repetition=r"r\d+",
    instance=r"i\d+",
    profile="|".join(PROFILES),
    round=r"[A-Za-z0-9][A-Za-z0-9_.-]*",
    place="results|results/rounds_page",


def checked(check, *arguments):
    """What a check returns; an error of the configuration stops Snakemake with its own words."""
    try:
        return check(*arguments)
    except ConfigError as error:
        raise WorkflowError(str(error)) from None


# Snakemake has read these files already, but takes what `hpcai check` refuses, such as a key that stands twice.
if workflow.is_main_process:
    checked(refuse_loose_files, workflow.configfiles)
# A study that an earlier start wrote (results/study.json) ends with its digest, which was checked above.
config.pop(KEY.decode(), None)
CAMPAIGN = checked(load_campaign, config, ROOT / "config")
PLANS = CAMPAIGN.plans()
PROFILE_PLANS = {profile: CAMPAIGN.profiles(profile) for profile in PROFILES}
WEAK_PLANS = CAMPAIGN.weak_plans()
# Every attempt to change a finished run stops here. What starts a job has looked already: the job does not.
if workflow.is_main_process:
    checked(
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
# The defaults go back into the configuration, so that the report shows what was really used.
config.update(CAMPAIGN.study.model_dump(mode="json"))


def present_or_planned(files):
    """Files of the measuring stages: all of them, or without measuring those that are there."""
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
LINK_POINTS = {row.scale: row for row in CAMPAIGN.rows if row.ranks > 1}
LINKS = present_or_planned(
    [f"results/characterise/allreduce_{scale}.json" for scale in LINK_POINTS]
)
# A benchmark without a row in the run table, or to be analysed without a record, has no run to be explained.
WITH_RECORDS = {Path(record).parts[2] for record in present_or_planned(RECORDS)}
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
ROUNDS = {name_round(source): find_round(source) for source in CAMPAIGN.study.rounds}
IMPORTED_ROUNDS = [f"results/rounds/{name}" for name in ROUNDS]
CHARACTERISATIONS = [*CEILINGS, *LINKS, *WORK, *CAPTURES]
# Which files of which kinds of profiles hold a view.
VIEW_FILES = {
    view: [
        f"results/characterise/{kind}/{view}.parquet"
        for kind, views in PROFILE_VIEWS.items()
        if view in views
    ]
    for view in sorted({view for views in PROFILE_VIEWS.values() for view in views})
}


# Tables of the timed runs, and of the stage `scores`.
RUN_TABLES = ["runs", "epochs", "scales", "scaling", "verdicts"]
# What weak-scaling groups have a part in; whoever asks for the tables above starts no group.
GROUP_TABLES = ["contention", "efficiency"]
SCORE_TABLES = [
    *["run_scores", "scores", "machine_scores"],
    *["roofline_points", "roofline_ceilings", "roofline_moves"],
    *["published_points", "published_ceilings", "published_moves"],
    *["scaling_details", "scaling_fits", "scaling_curves", "variant_effects"],
    *["declared", "declared_checks", "declared_breakdowns", "ranking"],
    *["comparison", "changes", "history"],
]


# What each published round is imported as: a results folder like that of a study, and tables for the analysis of rounds.
IMPORTED_TABLES = ["runs", "epochs", "run_scores", "scores"]
SOURCE_TABLES = [
    "mlperf_runs",
    "mlperf_weak",
    "mlperf_verdicts",
    "mlperf_repairs",
    "mlperf_systems",
]
# Tables of all rounds and our own runs together; each is a page, too.
ROUND_TABLES = [
    name for name, page in catalogue.PAGES.items() if page.stage == "rounds"
]


# Which tables each rule of the stage `predict` writes.
PREDICTION_TABLES = {
    "predict_published": [
        *["hpl_sweeps", "hpl_published", "hpl_answers"],
        *["training_networks", "training_sweeps", "prediction_findings"],
    ],
    "fit_kernels": ["kernel_accuracy", "kernel_errors", "kernel_goals"],
    "validate_hpl": ["hpl_rates", "hpl_validation"],
    "predict_study": ["predictions", "prediction_accuracy", "own_steps"],
    "judge_steps": ["step_accuracy", "step_stages"],
}


def table_files(tables):
    """Files of tables: for people and for programs."""
    return expand(
        "results/tables/{table}.{kind}", table=tables, kind=["csv", "parquet"]
    )


def prediction_tables(rule):
    """Files of the tables that a rule of the stage `predict` writes."""
    return table_files(PREDICTION_TABLES[rule])


def listed(file, entry, label):
    """A file that Snakemake's report lists, with its caption."""
    return report(
        file,
        caption=f"../../reports/captions/{Path(file).stem}.rst",
        category=entry.category,
        labels={"figure": label},
    )


def plain(files):
    """Files as inputs name them, without what only an output may carry."""
    return [str(file) for file in files]


def figures_of(stage, place="results", kind=catalogue.FIGURES):
    """Figures (or charts) of a stage, as the catalogue has them."""
    return [
        listed(f"{place}/figures/{name}.svg", one, one.title)
        for name, one in kind.items()
        if one.stage == stage
    ]


def pages_of(stage, place="results"):
    """Pages of the tables of a stage, as the catalogue has them."""
    return [
        listed(file, one, one.label) if one.category else file
        for name, one in catalogue.PAGES.items()
        if one.stage == stage
        for file in [f"{place}/tables/{name}.html"]
    ]


def tables_of(stage, place="results"):
    """Tables that figures and pages of a stage are made from."""
    return expand(
        "{place}/tables/{table}.parquet",
        place=place,
        table=catalogue.tables_shown(stage),
    )


def shown_predictions():
    """Tables of the stage `predict` that reports show: of published models, and what was measured for."""
    asked = "predict" in map(str, workflow.dag_settings.targets)
    there = [
        one
        for one, measured in MEASURED_PREDICTIONS.items()
        if asked or all(map(os.path.exists, [*prediction_tables(one), *measured]))
    ]
    return [
        table
        for one in ["predict_published", *there]
        for table in PREDICTION_TABLES[one]
    ]


def prediction_figures():
    """Figures that are drawn from predictions that reports show."""
    tables = {*shown_predictions(), *RUN_TABLES, *GROUP_TABLES}
    return [
        f"results/figures/{name}.svg"
        for name, one in catalogue.FIGURES.items()
        if one.stage in ("published", "predict") and tables.issuperset(one.tables)
    ]


def predictions(_wildcards):
    """Files of the stage `predict` that reports show."""
    return [
        *prediction_figures(),
        *table_files(shown_predictions()),
        "results/prediction.json",
    ]


def said_of_predictions(_wildcards):
    """Tables that the texts of the report read, as far as they are shown."""
    shown = set(shown_predictions())
    return expand(
        "results/tables/{table}.parquet",
        table=[table for table in SAID_OF_PREDICTIONS if table in shown],
    )


def tables_of_scores(_wildcards):
    """Tables that scores are shown from; the scaling chart has predictions as soon as there are any."""
    later = {*MEASURED_TABLES} - {*shown_predictions()}
    return [table for table in tables_of("scores") if Path(table).stem not in later]


def round_pages(place):
    """Files about rounds that a report page in this folder shows."""
    return plain(figures_of("rounds", place) + pages_of("rounds", place))


def pages_of_given_rounds(_wildcards):
    """Files that the page on rounds shows; without a round it would replace a good page by an empty one."""
    if not ROUNDS:
        raise WorkflowError(
            "rounds: found none, expected result repositories or archives: "
            "snakemake rounds --config \"rounds=['PATH']\", or the study key `rounds`"
        )
    return round_pages("results/rounds_page")


def round_source(wildcards):
    """Folder or archive of a round."""
    return str(ROUNDS[wildcards.round])


def round_archive(wildcards):
    """Archive of a round; a folder is no input, because its time of change says nothing of what lies deeper in it."""
    return [] if ROUNDS[wildcards.round].is_dir() else str(ROUNDS[wildcards.round])


def state_of(files):
    """Digest of names, sizes and times of files that are no input of a job: a change of any runs it again."""
    facts = [(file, file.lstat()) for file in files if not file.is_dir()]
    lines = [f"{file} {fact.st_size} {fact.st_mtime_ns}" for file, fact in facts]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def round_state(wildcards):
    """State of all files of a round that is a folder."""
    return state_of(sorted(ROUNDS[wildcards.round].rglob("*")))


def is_mlperf_hpc(record):
    """Whether a run is of a benchmark of MLPerf HPC, by the path of its record."""
    return CAMPAIGN.benchmarks[Path(record).parts[2]].suite == "mlperf_hpc"


def own_records(wildcards):
    """Records of all our MLPerf HPC runs for the study's report; as inputs they are measured if they are not there."""
    records = [*RECORDS_TO_ANALYSE, *WEAK_GROUPS]
    return list(filter(is_mlperf_hpc, records if wildcards.place == "results" else []))


def recorded(wildcards):
    """Records that are there for the page on rounds; being no inputs they never start a run."""
    records = [] if wildcards.place == "results" else [*RECORDS, *WEAK_GROUPS]
    return [
        record for record in filter(is_mlperf_hpc, records) if Path(record).exists()
    ]


def recorded_state(wildcards):
    """State of the records that are there."""
    return state_of(map(Path, recorded(wildcards)))


def library_of(script):
    """Digest of what a script, or a module that is a program, loads of the library: Snakemake does not notice edits there."""
    return library_digest(ROOT / script, ROOT / "src")


def data_workload(wildcards):
    """Workload that a dataset belongs to."""
    return DATASETS[wildcards.dataset].workload


def data_settings(wildcards):
    """Data settings of a dataset, as plain values."""
    return DATASETS[wildcards.dataset].data.model_dump(mode="json")


def pack_settings(wildcards):
    """Packing settings of a dataset, as plain values."""
    return DATASETS[wildcards.dataset].pack.model_dump(mode="json")


def run_id(wildcards):
    """Path of a run below its folder of runs."""
    return f"{wildcards.benchmark}/{wildcards.variant}/{wildcards.scale}/{wildcards.repetition}"


# What is started first of all that is ready: data, then the runs in rounds, then all else (0).
DATA_FIRST = len(PLANS) + 1
PRIORITIES = {
    run: DATA_FIRST - number for number, run in enumerate(CAMPAIGN.rounds(), start=1)
}


def run_priority(wildcards):
    """Priority of a timed run: those of one round come before those of the next."""
    return PRIORITIES[run_id(wildcards)]


def run_plan(wildcards):
    """Plan of a timed run, as the text of its file."""
    written = Path(f"results/runs/{run_id(wildcards)}/plan.json")
    return plan_text(kept_plan(PLANS[run_id(wildcards)], written))


def profile_plan(wildcards):
    """Plan of a profiled run, as the text of its file."""
    run, plans = run_id(wildcards), PROFILE_PLANS[wildcards.profile]
    written = Path("results/profiles", wildcards.profile, run, "plan.json")
    return plan_text(kept_plan(plans[run], written))


def weak_plan(wildcards):
    """Plan of one instance of a weak-scaling group, as the text of its file."""
    run = f"{wildcards.benchmark}/{wildcards.variant}/{wildcards.scale}/{wildcards.instance}"
    written = Path("results/weak", run, "plan.json")
    return plan_text(kept_plan(WEAK_PLANS[run], written))


def weak_plans_of_group(wildcards):
    """Plans of all instances of a weak-scaling group, by number."""
    group = f"{wildcards.benchmark}/{wildcards.variant}/{wildcards.scale}"
    return [
        f"results/weak/{run_id}/plan.json"
        for run_id in WEAK_PLANS
        if str(Path(run_id).parent) == group
    ]


def captures_of(profile):
    """Captures of one kind of profile."""
    return [
        file for file in CAPTURES if file.startswith(f"results/profiles/{profile}/")
    ]


def work_plan(wildcards):
    """Plan of a benchmark's first run: the work of a sample is the same in all of them."""
    run = next(run for run in PLANS if run.startswith(f"{wildcards.benchmark}/"))
    return f"results/runs/{run}/plan.json"


@functools.cache
def wait_for_orphans():
    """Wait for runs and Slurm jobs that a controller which was killed left behind: their results are taken.

    Called while the graph of jobs is built, because a job that exists by then is submitted.
    """
    starts_jobs = workflow.executor_plugin and not (workflow.dryrun or workflow.touch)
    if workflow.is_main_process and starts_jobs:
        wait_until_idle(Path("results"), Path.cwd(), logger.info)


# Taken here: what starts jobs in Slurm takes its variables out of the environment, before `onstart`.
CONTROLLER = this_controller() if workflow.is_main_process else None


def note_start():
    """Write down what is to be measured, for `hpcai status` and `hpcai doctor`; to analyse alone changes nothing of it."""
    if CAMPAIGN.study.measure:
        targets = workflow.dag_settings.targets
        write_note(CAMPAIGN, Path("results"), sys.argv, CONTROLLER, targets)
        FAILURES.unlink(missing_ok=True)


def name_lacking_cores():
    """Say before any job starts which ceilings this host cannot measure; of other hosts the job itself finds out."""
    pending = not all(map(os.path.exists, CEILINGS))
    for lacking in filter(None, map(say_lacking_cores, CEILING_THREADS)):
        if pending and workflow.local_exec:
            logger.warning(f"ceilings that will not be measured here: {lacking}")


def run_manifest(wildcards):
    """Manifest of the dataset that a run trains on."""
    wait_for_orphans()
    return f"data/{CAMPAIGN.benchmarks[wildcards.benchmark].data.dataset}/manifest.json"


def run_pack(wildcards):
    """Manifest of the packed dataset, if the benchmark stages."""
    benchmark = CAMPAIGN.benchmarks[wildcards.benchmark]
    packed = f"data/{benchmark.data.dataset}/packed/packed.json"
    return packed if benchmark.is_packed else []


def records_to_analyse():
    """Records of the planned runs."""
    records = present_or_planned(RECORDS)
    if not records and not ROUNDS:
        raise WorkflowError(
            "measure: found false, but results/runs holds no record of this study; set it to true"
        )
    return records


def records_of_benchmark(wildcards):
    """Records of one benchmark."""
    return [
        record
        for record in RECORDS_TO_ANALYSE
        if record.startswith(f"results/runs/{wildcards.benchmark}/")
    ]


def read_summary(path):
    """A summary for the report's texts, checked against the digest that it ends with."""
    try:
        return json.loads(unseal(path.read_bytes()).text)
    except ValueError as error:
        raise WorkflowError(f"{path}: {error}; delete it and start again") from None


def summary():
    """Summary of the study for the report's texts; absent before the analysis."""
    parts = {
        name: Path(f"results/{name}.json")
        for name in ("summary", "characterisation", "scoring", "prediction")
    }
    if not all(path.exists() for path in parts.values()):
        return None
    texts = {name: read_summary(path) for name, path in parts.items()}
    return {**texts.pop("summary"), **texts}


config["summary"] = summary()


# A timed run has its nodes for itself: it takes every core, whatever their number.
ALL_CORES = 1024
# Time limits of jobs: a run's own limit, and what comes before and after it (caches dropped, checksums); what is measured of the machine.
RUN_LIMIT_S = (
    CAMPAIGN.study.limits.run_s * (1 + CAMPAIGN.study.limits.disturbance.repeats) + 600
)
MACHINE_LIMIT_S = 3600
# How much others may take of a node while it is measured, and how often it is measured again.
TOLERANCE = CAMPAIGN.study.limits.disturbance.model_dump()
# Where the profile names no launcher: Horovod's own.
LAUNCHER = (
    {}
    if "launcher" in (workflow.resource_settings.default_resources or {})
    else {"launcher": "horovodrun"}
)


def whole_nodes(nodes, limit_s):
    """What a job that measures asks of a batch system: whole nodes for itself; its launcher shares them among the ranks.

    The name `mpi` keeps Snakemake's Slurm executor from wrapping the job into a step of one node.
    """
    machine = CAMPAIGN.machine
    asked = {"nodes": nodes, "mpi": "launcher", "runtime": int(-(-limit_s // 60))}
    asked |= {"tasks_per_node": machine.cores_per_node, "cpus_per_task": 1}
    asked |= {"mem_mb": machine.memory_bytes // 2**20}
    asked |= {"slurm_extra": "--exclusive --no-requeue"}
    if machine.accelerators_per_node:
        asked |= {
            "gres": f"gpu:{machine.accelerators_per_node}",
            "tasks_per_gpu": 0,
        }
    return asked | LAUNCHER


def in_image():
    """Parameter that puts measuring programs into the machine's image; without one there is none, and nothing changes."""
    software = CAMPAIGN.machine.software
    inside = software is not None and software.container is not None
    return {"software": software.model_dump(mode="json")} if inside else {}


def nodes_of_scale(wildcards):
    """Nodes of a run, by its scale: n2x4 has two."""
    return int(wildcards.scale[1:].split("x")[0])


def nodes_of_group(wildcards):
    """Nodes of a weak-scaling group, all its instances together."""
    group = f"{wildcards.benchmark}/{wildcards.variant}/{wildcards.scale}"
    first = WEAK_PLANS[next(run for run in WEAK_PLANS if run.startswith(f"{group}/"))]
    point, together = first.point, first.instances
    sharing = Sharing.of(first.machine, point.nodes, point.ranks_per_node, together)
    return sharing.nodes_needed
