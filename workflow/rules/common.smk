"""Checks the whole configuration before any job exists, and says which files each target needs."""

import hashlib
import json
import os
from pathlib import Path

from snakemake.exceptions import WorkflowError

from hpcai.characterise.views import PROFILE_VIEWS, VIEWS
from hpcai.config.load import load_campaign
from hpcai.config.runs import PROFILES
from hpcai.errors import ConfigError
from hpcai.measure.publish import kept_plan, refuse_changed

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
    profile="|".join(PROFILES),


def checked_campaign():
    """The campaign; every error of the configuration, and every attempt to change a finished run, stops here."""
    try:
        campaign = load_campaign(config, ROOT / "config")
        kinds = [
            (Path("results/profiles", kind), campaign.profiles(kind))
            for kind in PROFILES
        ]
        refuse_changed([(Path("results/runs"), campaign.plans()), *kinds])
    except ConfigError as error:
        raise WorkflowError(str(error)) from None
    return campaign


CAMPAIGN = checked_campaign()
PLANS = CAMPAIGN.plans()
PROFILE_PLANS = {profile: CAMPAIGN.profiles(profile) for profile in PROFILES}
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
LINK_POINTS = {
    plan.point.scale: plan.point for plan in PLANS.values() if plan.point.ranks > 1
}
LINKS = present_or_planned(
    [f"results/characterise/allreduce_{scale}.json" for scale in LINK_POINTS]
)
WORK = present_or_planned(
    [f"results/characterise/work/{benchmark}.json" for benchmark in CAMPAIGN.benchmarks]
)
HPC_AI500_BENCHMARKS = [
    name
    for name, benchmark in CAMPAIGN.benchmarks.items()
    if benchmark.suite == "hpc_ai500"
]
PUBLISHED = [str(path) for path in CAMPAIGN.published]
RANKED_STUDIES = [os.path.expandvars(folder) for folder in CAMPAIGN.study.rank_with]
EARLIER_STUDIES = [os.path.expandvars(folder) for folder in CAMPAIGN.study.compare_with]
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


# Which tables each rule of the stage `scores` writes.
SCORE_TABLES = {
    "score_study": ["run_scores", "scores", "machine_scores"],
    "place_rooflines": [
        *["roofline_points", "roofline_ceilings", "roofline_moves"],
        *["published_points", "published_ceilings", "published_moves"],
    ],
    "explain_scaling": [
        "scaling_details",
        "scaling_fits",
        "scaling_curves",
        "variant_effects",
    ],
    "rank_results": ["declared", "declared_checks", "ranking"],
    "compare_studies": ["comparison", "changes", "history"],
}


def score_tables(rule):
    """Files of the tables that a rule writes."""
    return expand(
        "results/tables/{table}.{kind}",
        table=SCORE_TABLES[rule],
        kind=["csv", "parquet"],
    )


def library_digest(*modules):
    """Digest of library files or folders: Snakemake does not notice edits in src/ by itself."""
    places = [ROOT / "src" / "hpcai" / module for module in modules]
    files = [
        file
        for place in places
        for file in ([place] if place.is_file() else sorted(place.rglob("*.py")))
    ]
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()[
        :16
    ]


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


def run_plan(wildcards):
    """Plan of a timed run, as plain values."""
    written = Path(f"results/runs/{run_id(wildcards)}/plan.json")
    return kept_plan(PLANS[run_id(wildcards)], written).model_dump(mode="json")


def profile_plan(wildcards):
    """Plan of a profiled run, as plain values."""
    run, plans = run_id(wildcards), PROFILE_PLANS[wildcards.profile]
    written = Path("results/profiles", wildcards.profile, run, "plan.json")
    return kept_plan(plans[run], written).model_dump(mode="json")


def captures_of(profile):
    """Captures of one kind of profile."""
    return [
        file for file in CAPTURES if file.startswith(f"results/profiles/{profile}/")
    ]


def work_plan(wildcards):
    """Plan of a benchmark's first run: the work of a sample is the same in all of them."""
    run = next(
        run
        for run, plan in PLANS.items()
        if plan.point.benchmark == wildcards.benchmark
    )
    return f"results/runs/{run}/plan.json"


def run_manifest(wildcards):
    """Manifest of the dataset that a run trains on."""
    return f"data/{CAMPAIGN.benchmarks[wildcards.benchmark].data.dataset}/manifest.json"


def run_pack(wildcards):
    """Manifest of the packed dataset, if the benchmark stages."""
    benchmark = CAMPAIGN.benchmarks[wildcards.benchmark]
    packed = f"data/{benchmark.data.dataset}/packed/packed.json"
    return packed if benchmark.is_packed else []


def records_to_analyse():
    """Records of the planned runs."""
    records = present_or_planned(RECORDS)
    if not records:
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


def summary():
    """Summary of the study for the report's texts; absent before the analysis."""
    parts = {
        name: Path(f"results/{name}.json")
        for name in ("summary", "characterisation", "scoring")
    }
    if not all(path.exists() for path in parts.values()):
        return None
    texts = {name: json.loads(path.read_text()) for name, path in parts.items()}
    return {**texts.pop("summary"), **texts}


config["summary"] = summary()
