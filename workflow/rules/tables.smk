"""Names of the tables and figures that the stages write and the reports show."""

import os
from pathlib import Path

from hpcai.catalogue import figures as catalogue

# Tables of the timed runs, and of the stage `scores`.
RUN_TABLES = ["runs", "epochs", "scales", "scaling", "verdicts"]
# Tables that involve weak-scaling groups; requesting the tables above does not start a group.
GROUP_TABLES = ["contention", "weak_forecasts", "efficiency"]
SCORE_TABLES = [
    *["run_scores", "scores", "machine_scores", "machine_overview"],
    *["movement_scores", "reproducibility", "expected_ranges"],
    *["roofline_points", "roofline_ceilings", "roofline_moves"],
    *["published_points", "published_ceilings", "published_moves"],
    *["scaling_details", "scaling_fits", "scaling_curves", "variant_effects"],
    *["declared", "declared_checks", "declared_breakdowns", "ranking"],
    *["comparison", "changes", "history"],
]


# Tables written by each rule of the stage `predict`.
PREDICTION_TABLES = {
    "predict_published": [
        *["hpl_sweeps", "hpl_published", "hpl_answers"],
        *["training_networks", "training_sweeps", "prediction_findings"],
    ],
    "fit_kernels": ["kernel_accuracy", "kernel_errors", "kernel_goals"],
    "validate_hpl": ["hpl_rates", "hpl_validation", "hpl_parts"],
    "predict_study": ["predictions", "prediction_accuracy", "own_steps"],
    "sum_blocks": [
        "block_steps",
        "block_times",
        "block_samples",
        "block_kinds",
        "allreduce_errors",
    ],
    "predict_scales": ["scale_cases"],
    "judge_steps": ["step_accuracy", "step_stages"],
}


def table_files(tables):
    """Files of tables, as CSV for people and Parquet for programs."""
    return expand(
        "results/tables/{table}.{kind}", table=tables, kind=["csv", "parquet"]
    )


def prediction_tables(rule):
    """Files of the tables that a rule of the stage `predict` writes."""
    return table_files(PREDICTION_TABLES[rule])


def listed(file, entry):
    """A file listed in Snakemake's report, with its caption, which the library has written by then."""
    return report(
        file,
        caption=Path(f"results/captions/{Path(file).stem}.rst").absolute(),
        category=entry.category,
        labels={"figure": entry.title},
    )


def plain(files):
    """Files as named by inputs, without the flags that only outputs may have."""
    return [str(file) for file in files]


def figures_of(stage, place="results", kind=catalogue.FIGURES):
    """Figures (or charts) of a stage, from the catalogue."""
    return [
        listed(f"{place}/figures/{name}.svg", one)
        for name, one in kind.items()
        if one.stage == stage
    ]


def tables_of(stage, place="results", kind=catalogue.FIGURES):
    """Source tables of a stage's figures (or charts)."""
    return expand(
        "{place}/tables/{table}.parquet",
        place=place,
        table=catalogue.tables_shown(stage, kind),
    )


def is_asked(target):
    """Whether a target is among those of this start."""
    return target in map(str, workflow.dag_settings.targets)


def asked_or_there(files):
    """Files that only the target `regressors` measures; others use them if all are there."""
    there = is_asked("regressors") or all(map(os.path.exists, files))
    return files if there else []


def kernel_times(_wildcards):
    return asked_or_there(OF_MACHINE["kernel_times"])


def reference_steps(_wildcards):
    return asked_or_there(OF_MACHINE["reference_steps"])


def are_predicted(one):
    """Whether the tables of a prediction are there, and what they are made from."""
    measured = MEASURED_PREDICTIONS[one]
    if one in ONLY_MEASURED and not measured:
        return False
    return all(map(os.path.exists, [*prediction_tables(one), *measured]))


def shown_predictions():
    """Tables of the stage `predict` shown in reports: published models, and predictions with measurements."""
    there = [
        one
        for one in MEASURED_PREDICTIONS
        if is_asked("regressors" if one in OF_REGRESSORS else "predict")
        or are_predicted(one)
    ]
    return [
        table
        for one in ["predict_published", *there]
        for table in PREDICTION_TABLES[one]
    ]


def prediction_figures():
    """Figures of the predictions shown in reports."""
    tables = {*shown_predictions(), *RUN_TABLES, *GROUP_TABLES}
    return [
        f"results/figures/{name}.svg"
        for name, one in catalogue.FIGURES.items()
        if one.stage in ("published", "predict") and tables.issuperset(one.tables)
    ]


def predictions(_wildcards):
    """Files of the stage `predict` shown in reports."""
    return [
        *prediction_figures(),
        *table_files(shown_predictions()),
        "results/prediction.json",
    ]


def said_of_predictions(_wildcards):
    """Tables read by the report's texts, as far as they are shown."""
    shown = set(shown_predictions())
    return expand(
        "results/tables/{table}.parquet",
        table=[table for table in SAID_OF_PREDICTIONS if table in shown],
    )


def tables_of_charts(_wildcards):
    """Source tables of the scores' charts; that of scaling includes predictions once they exist."""
    later = {*MEASURED_TABLES} - {*shown_predictions()}
    tables = tables_of("scores", kind=catalogue.CHARTS)
    return [table for table in tables if Path(table).stem not in later]
