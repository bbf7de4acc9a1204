# Reads:  result repositories or archives of published MLPerf HPC rounds, records and logs of our own MLPerf HPC runs
# Writes: results/rounds/ROUND/tables; tables mlperf_*, their figures in results/ (with the planned runs) and
#         in results/rounds_page/ (with the existing runs); results/rounds.html
# The rounds have a separate page, because the study's report needs all of its runs, and the rounds need none.


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
        library=library_of("workflow/scripts/import_round.py"),
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
        library=library_of("workflow/scripts/import_own_runs.py"),
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
        library=library_of("workflow/scripts/analyse_rounds.py"),
    script:
        "../scripts/analyse_rounds.py"


use rule show_runs as show_rounds with:
    input:
        tables_of("rounds", "{place}"),
    output:
        figures=figures_of("rounds", "{place}"),
    log:
        "logs/show_rounds/{place}.log",


rule write_rounds_page:
    input:
        results=parts_of_given_rounds,
        sources=REPORT_SOURCES,
    output:
        html="results/rounds.html",
    log:
        "logs/write_rounds_page.log",
    conda:
        "../../envs/hpcai.yaml"
    params:
        place="rounds_page/",
        library=library_of("workflow/scripts/write_rounds_page.py"),
        sources=lambda _: str(ROOT / "reports"),  # not a prefix of an input
    script:
        "../scripts/write_rounds_page.py"
