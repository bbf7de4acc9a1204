# Reads:  result repositories or archives of published MLPerf HPC rounds, records and logs of our own MLPerf HPC runs
# Writes: results/rounds/ROUND/tables; tables mlperf_*, their figures and pages in results/ (with the planned runs) and
#         in results/rounds_page/ (with the runs that are recorded already); results/rounds.html
#
# The rounds have a page of their own, because the study's report needs all of its runs, and the rounds need none.


ROUND_LIBRARY = library_digest(
    "mlperf_hpc", "parsers/mllog.py", "metrics", "rules", "rules/mlperf_hpc.yaml"
)


rule import_round:
    input:
        archive=round_archive,
    output:
        tables=expand(
            "results/rounds/{{round}}/tables/{table}.{kind}",
            table=[*IMPORTED_TABLES, *SOURCE_TABLES],
            kind=["csv", "parquet"],
        ),
        study="results/rounds/{round}/study.json",
    log:
        "logs/import_round/{round}.log",
    conda:
        "../../envs/hpcai.yaml"
    params:
        name="{round}",
        source=round_source,
        state=round_state,
        library=ROUND_LIBRARY,
    script:
        "../scripts/import_round.py"


rule import_own_runs:
    input:
        records=own_records,
    output:
        tables=expand(
            "{{place}}/own_runs/tables/{table}.{kind}",
            table=SOURCE_TABLES,
            kind=["csv", "parquet"],
        ),
    log:
        "logs/import_own_runs/{place}.log",
    conda:
        "../../envs/hpcai.yaml"
    params:
        recorded=recorded,
        state=recorded_state,
        library=ROUND_LIBRARY,
    script:
        "../scripts/import_own_runs.py"


rule analyse_rounds:
    input:
        own=expand(
            "{{place}}/own_runs/tables/{table}.parquet",
            table=SOURCE_TABLES,
        ),
        rounds=expand(
            "results/rounds/{round}/tables/{table}.parquet",
            round=ROUNDS,
            table=SOURCE_TABLES,
        ),
    output:
        tables=expand(
            "{{place}}/tables/{table}.{kind}",
            table=ROUND_TABLES,
            kind=["csv", "parquet"],
        ),
    log:
        "logs/analyse_rounds/{place}.log",
    conda:
        "../../envs/hpcai.yaml"
    params:
        library=ROUND_LIBRARY,
    script:
        "../scripts/analyse_rounds.py"


rule show_round_tables:
    input:
        tables=expand("{{place}}/tables/{table}.parquet", table=ROUND_TABLES),
    output:
        pages=expand("{{place}}/tables/{table}.html", table=ROUND_TABLES),
    log:
        "logs/show_round_tables/{place}.log",
    conda:
        "../../envs/hpcai.yaml"
    params:
        titles=list(ROUND_TABLES.values()),
        library=PLOT_LIBRARY,
    script:
        "../scripts/show_round_tables.py"


use rule plot_time_to_train as plot_mlperf_time_shares with:
    input:
        mlperf_results="{place}/tables/mlperf_results.parquet",
    output:
        figure=report(
            "{place}/figures/mlperf_time_shares.svg",
            caption="../../reports/captions/mlperf_time_shares.rst",
            category="MLPerf HPC rounds",
            labels={"figure": "Shares of the time to solution"},
        ),
    log:
        "logs/plot_mlperf_time_shares/{place}.log",
    params:
        figure="mlperf_time_shares",
        library=PLOT_LIBRARY,


use rule plot_time_to_train as plot_mlperf_scaling with:
    input:
        mlperf_results="{place}/tables/mlperf_results.parquet",
    output:
        figure=report(
            "{place}/figures/mlperf_scaling.svg",
            caption="../../reports/captions/mlperf_scaling.rst",
            category="MLPerf HPC rounds",
            labels={"figure": "Epochs, throughput and compute time"},
        ),
    log:
        "logs/plot_mlperf_scaling/{place}.log",
    params:
        figure="mlperf_scaling",
        library=PLOT_LIBRARY,


use rule plot_time_to_train as plot_mlperf_principal with:
    input:
        mlperf_runs="{place}/tables/mlperf_runs.parquet",
        mlperf_principal="{place}/tables/mlperf_principal.parquet",
        mlperf_results="{place}/tables/mlperf_results.parquet",
    output:
        figure=report(
            "{place}/figures/mlperf_principal.svg",
            caption="../../reports/captions/mlperf_principal.rst",
            category="MLPerf HPC rounds",
            labels={"figure": "Epochs and epoch throughput of each run"},
        ),
    log:
        "logs/plot_mlperf_principal/{place}.log",
    params:
        figure="mlperf_principal",
        library=PLOT_LIBRARY,


use rule plot_time_to_train as plot_mlperf_weak with:
    input:
        mlperf_weak="{place}/tables/mlperf_weak.parquet",
    output:
        figure=report(
            "{place}/figures/mlperf_weak.svg",
            caption="../../reports/captions/mlperf_weak.rst",
            category="MLPerf HPC rounds",
            labels={"figure": "Weak scaling"},
        ),
    log:
        "logs/plot_mlperf_weak/{place}.log",
    params:
        figure="mlperf_weak",
        library=PLOT_LIBRARY,


use rule plot_time_to_train as plot_mlperf_prediction with:
    input:
        mlperf_curves="{place}/tables/mlperf_curves.parquet",
        mlperf_predictions="{place}/tables/mlperf_predictions.parquet",
        mlperf_leave_one_out="{place}/tables/mlperf_leave_one_out.parquet",
        mlperf_prediction_errors="{place}/tables/mlperf_prediction_errors.parquet",
    output:
        figure=report(
            "{place}/figures/mlperf_prediction.svg",
            caption="../../reports/captions/mlperf_prediction.rst",
            category="MLPerf HPC rounds",
            labels={"figure": "Prediction from joined curves"},
        ),
    log:
        "logs/plot_mlperf_prediction/{place}.log",
    params:
        figure="mlperf_prediction",
        library=PLOT_LIBRARY,


rule write_rounds_page:
    input:
        results=pages_of_given_rounds,
        sources=REPORT_SOURCES,
        definitions=str(ROOT / "reports" / "definitions.yaml"),
    output:
        html="results/rounds.html",
    log:
        "logs/write_rounds_page.log",
    conda:
        "../../envs/hpcai.yaml"
    params:
        place="rounds_page/",
        library=REPORT_LIBRARY,
    script:
        "../scripts/write_rounds_page.py"
