# Reads:  record.json of every run, and nothing else of a run
# Writes: results/tables/*.{csv,parquet,html}, results/summary.json, results/figures/*.svg


RECORDS_TO_ANALYSE = records_to_analyse()
TABLE_LIBRARY = library_digest(
    "tables.py", "metrics", "rules", "rules/hpc_ai500.yaml", "rules/mlperf_hpc.yaml"
)
PLOT_LIBRARY = library_digest("plots", "metrics")
ANALYSES = [
    *expand(
        "results/tables/{table}.{kind}",
        table=["runs", "epochs", "scales", "scaling", "verdicts", "efficiency"],
        kind=["csv", "parquet"],
    ),
    *expand(
        "results/tables/{table}.html",
        table=["runs", "scales", "verdicts", "efficiency"],
    ),
    *expand(
        "results/figures/{figure}.svg",
        figure=["time_to_train", "quality", "loss", "time_shares"],
    ),
    *expand(
        "results/figures/{figure}.svg",
        figure=["throughput", "step_times", "staging"],
    ),
    "results/summary.json",
]


rule collect_runs:
    input:
        records=RECORDS_TO_ANALYSE,
    output:
        runs_csv="results/tables/runs.csv",
        runs="results/tables/runs.parquet",
        epochs_csv="results/tables/epochs.csv",
        epochs="results/tables/epochs.parquet",
        verdicts_csv="results/tables/verdicts.csv",
        verdicts="results/tables/verdicts.parquet",
    log:
        "logs/collect_runs.log",
    conda:
        "../../envs/hpcai.yaml"
    params:
        library=TABLE_LIBRARY,
    script:
        "../scripts/collect_runs.py"


rule summarise_scales:
    input:
        runs="results/tables/runs.parquet",
    output:
        scales_csv="results/tables/scales.csv",
        scales="results/tables/scales.parquet",
        scaling_csv="results/tables/scaling.csv",
        scaling="results/tables/scaling.parquet",
    log:
        "logs/summarise_scales.log",
    conda:
        "../../envs/hpcai.yaml"
    params:
        library=TABLE_LIBRARY,
    script:
        "../scripts/summarise_scales.py"


rule compare_use:
    input:
        records=[*RECORDS_TO_ANALYSE, *WEAK_GROUPS],
    output:
        csv="results/tables/efficiency.csv",
        parquet="results/tables/efficiency.parquet",
    log:
        "logs/compare_use.log",
    conda:
        "../../envs/hpcai.yaml"
    params:
        library=library_digest("campaign/efficiency.py"),
    script:
        "../scripts/compare_use.py"


rule summarise_study:
    input:
        records=RECORDS_TO_ANALYSE,
        runs="results/tables/runs.parquet",
        scales="results/tables/scales.parquet",
    output:
        summary="results/summary.json",
    log:
        "logs/summarise_study.log",
    conda:
        "../../envs/hpcai.yaml"
    params:
        title=CAMPAIGN.study.title,
        library=TABLE_LIBRARY,
    script:
        "../scripts/summarise_study.py"


rule show_runs:
    input:
        table="results/tables/runs.parquet",
    output:
        page=report(
            "results/tables/runs.html",
            caption="../../reports/captions/runs.rst",
            category="Summary",
            labels={"figure": "Table of runs"},
        ),
    log:
        "logs/show_runs.log",
    conda:
        "../../envs/hpcai.yaml"
    params:
        table="runs",
        title="All runs",
        note="Measured; one row per run, those that broke down included. Empty: not measured.",
        library=PLOT_LIBRARY,
    script:
        "../scripts/show_table.py"


use rule show_runs as show_scales with:
    input:
        table="results/tables/scales.parquet",
    output:
        page=report(
            "results/tables/scales.html",
            caption="../../reports/captions/scales.rst",
            category="Summary",
            labels={"figure": "Table of scales"},
        ),
    log:
        "logs/show_scales.log",
    params:
        table="scales",
        title="All scales",
        note="Means over the runs of a scale, with n beside them; measured. Empty: not measured.",
        library=PLOT_LIBRARY,


use rule show_runs as show_verdicts with:
    input:
        table="results/tables/verdicts.parquet",
    output:
        page=report(
            "results/tables/verdicts.html",
            caption="../../reports/captions/verdicts.rst",
            category="Rules",
            labels={"figure": "Table of verdicts"},
        ),
    log:
        "logs/show_verdicts.log",
    params:
        table="verdicts",
        title="What the rules say",
        note="Judged by the supervisor when each run ended; what no record can tell is not judged.",
        library=PLOT_LIBRARY,


use rule show_runs as show_efficiency with:
    input:
        table="results/tables/efficiency.parquet",
    output:
        page=report(
            "results/tables/efficiency.html",
            caption="../../reports/captions/efficiency.rst",
            category="Summary",
            labels={"figure": "Table of resources"},
        ),
    log:
        "logs/show_efficiency.log",
    params:
        table="efficiency",
        title="What each run asked for and used",
        note="Measured, but for what the column source calls declared. Empty: not known; reason says why.",
        library=PLOT_LIBRARY,


rule plot_time_to_train:
    input:
        runs="results/tables/runs.parquet",
        scales="results/tables/scales.parquet",
    output:
        figure=report(
            "results/figures/time_to_train.svg",
            caption="../../reports/captions/time_to_train.rst",
            category="Summary",
            labels={"figure": "Time to train"},
        ),
    log:
        "logs/plot_time_to_train.log",
    conda:
        "../../envs/hpcai.yaml"
    params:
        figure="time_to_train",
        library=PLOT_LIBRARY,
    script:
        "../scripts/plot_figure.py"


use rule plot_time_to_train as plot_quality with:
    input:
        epochs="results/tables/epochs.parquet",
        runs="results/tables/runs.parquet",
    output:
        figure=report(
            "results/figures/quality.svg",
            caption="../../reports/captions/quality.rst",
            category="Summary",
            labels={"figure": "Quality against epoch"},
        ),
    log:
        "logs/plot_quality.log",
    params:
        figure="quality",
        library=PLOT_LIBRARY,


use rule plot_time_to_train as plot_loss with:
    input:
        epochs="results/tables/epochs.parquet",
        runs="results/tables/runs.parquet",
    output:
        figure=report(
            "results/figures/loss.svg",
            caption="../../reports/captions/loss.rst",
            category="Summary",
            labels={"figure": "Training loss against epoch"},
        ),
    log:
        "logs/plot_loss.log",
    params:
        figure="loss",
        library=PLOT_LIBRARY,


use rule plot_time_to_train as plot_time_shares with:
    input:
        scales="results/tables/scales.parquet",
    output:
        figure=report(
            "results/figures/time_shares.svg",
            caption="../../reports/captions/time_shares.rst",
            category="Throughput",
            labels={"figure": "Shares of the wall time"},
        ),
    log:
        "logs/plot_time_shares.log",
    params:
        figure="time_shares",
        library=PLOT_LIBRARY,


use rule plot_time_to_train as plot_throughput with:
    input:
        runs="results/tables/runs.parquet",
        scales="results/tables/scales.parquet",
    output:
        figure=report(
            "results/figures/throughput.svg",
            caption="../../reports/captions/throughput.rst",
            category="Throughput",
            labels={"figure": "Samples per second"},
        ),
    log:
        "logs/plot_throughput.log",
    params:
        figure="throughput",
        library=PLOT_LIBRARY,


use rule plot_time_to_train as plot_step_times with:
    input:
        epochs="results/tables/epochs.parquet",
    output:
        figure=report(
            "results/figures/step_times.svg",
            caption="../../reports/captions/step_times.rst",
            category="Throughput",
            labels={"figure": "Step times"},
        ),
    log:
        "logs/plot_step_times.log",
    params:
        figure="step_times",
        library=PLOT_LIBRARY,


use rule plot_time_to_train as plot_staging with:
    input:
        runs="results/tables/runs.parquet",
    output:
        figure=report(
            "results/figures/staging.svg",
            caption="../../reports/captions/staging.rst",
            category="I/O",
            labels={"figure": "Staging"},
        ),
    log:
        "logs/plot_staging.log",
    params:
        figure="staging",
        library=PLOT_LIBRARY,
