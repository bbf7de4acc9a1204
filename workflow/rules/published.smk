"""Published MLPerf HPC rounds, together with our own runs."""

import hashlib
from pathlib import Path

from snakemake.exceptions import WorkflowError

from hpcai.config.rounds import SOURCE_TABLES, find_round, name_round

ROUNDS = {name_round(source): find_round(source) for source in CAMPAIGN.study.rounds}
IMPORTED_ROUNDS = [f"results/rounds/{name}" for name in ROUNDS]
# Import of each published round: a results folder like that of a study, plus the tables for the analysis.
IMPORTED_TABLES = ["runs", "epochs", "run_scores", "scores"]
# Tables of all rounds and our own runs together.
ROUND_TABLES = [
    *SOURCE_TABLES,
    *["mlperf_results", "mlperf_efficiencies", "mlperf_principal"],
    *["mlperf_curves", "mlperf_predictions"],
    *["mlperf_leave_one_out", "mlperf_prediction_errors", "mlperf_forecasts"],
    "mlperf_weak_backtest",
]


def round_parts(place):
    """Files about rounds that a report page in this folder shows."""
    tables = expand("{place}/tables/{table}.parquet", place=place, table=ROUND_TABLES)
    return [*plain(figures_of("rounds", place)), *tables]


def parts_of_given_rounds(_wildcards):
    """Files shown by the page on rounds; without a round, it would replace a good page by an empty one."""
    if not ROUNDS:
        raise WorkflowError(
            "rounds: found none, expected result repositories or archives: "
            "snakemake rounds --config \"rounds=['PATH']\", or the study key `rounds`"
        )
    return round_parts("results/rounds_page")


def round_source(wildcards):
    """Folder or archive of a round."""
    return str(ROUNDS[wildcards.round])


def round_archive(wildcards):
    """Archive of a round; a folder is not an input, because its modification time does not cover nested files."""
    return [] if ROUNDS[wildcards.round].is_dir() else str(ROUNDS[wildcards.round])


def state_of(files):
    """Digest of names, sizes and times of files that are not inputs of a job: any change reruns it."""
    facts = [(file, file.lstat()) for file in files if not file.is_dir()]
    lines = [f"{file} {fact.st_size} {fact.st_mtime_ns}" for file, fact in facts]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def round_state(wildcards):
    """State of all files of a round in a folder."""
    return state_of(sorted(ROUNDS[wildcards.round].rglob("*")))


def state_of_others(_wildcards):
    """State of what scores read beside their inputs: tables, settings and records of other studies, and outputs of HPL."""
    # Here, because few jobs need it and it takes time.
    from hpcai.records.files import RUN_RECORDS

    folders = [Path(one).resolve() for one in [*EARLIER_STUDIES, *RANKED_STUDIES]]
    read = ["tables/*.parquet", "study.json", RUN_RECORDS]
    files = [file for one in folders for name in read for file in one.glob(name)]
    outputs = [Path(one).resolve() for one in HPL_OUTPUTS if Path(one).exists()]
    return state_of(sorted({*files, *outputs}))


def is_mlperf_hpc(record):
    """Whether a run belongs to a benchmark of MLPerf HPC, by the path of its record."""
    return CAMPAIGN.benchmarks[Path(record).parts[2]].suite == "mlperf_hpc"


def own_records(wildcards):
    """Records of all our MLPerf HPC runs for the study's report; as inputs, missing ones are measured."""
    records = [*RECORDS_TO_ANALYSE, *WEAK_GROUPS]
    return list(filter(is_mlperf_hpc, records if wildcards.place == "results" else []))


def recorded(wildcards):
    """Existing records for the page on rounds; they are not inputs, so they never start a run."""
    records = [] if wildcards.place == "results" else [*RECORDS, *WEAK_GROUPS]
    return [
        record for record in filter(is_mlperf_hpc, records) if Path(record).exists()
    ]


def recorded_state(wildcards):
    """State of the existing records."""
    return state_of(map(Path, recorded(wildcards)))
