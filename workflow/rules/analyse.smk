# Reads:  record.json of every run, and no other file of a run
# Writes: results/tables/*.{csv,parquet}, results/summary.json, results/figures/*.svg
# One job makes all tables of a stage and one draws its figures, because starting Python takes longer than either.


RECORDS_TO_ANALYSE = records_to_analyse()
PLOT_LIBRARY = library_of("workflow/scripts/show_stage.py")
ANALYSES = [
    *table_files([*RUN_TABLES, *GROUP_TABLES]),
    *plain(figures_of("analyse")),
    "results/summary.json",
]


rule collect_runs:
    input:
        records=RECORDS_TO_ANALYSE,
    output:
        tables=table_files(RUN_TABLES),
        summary="results/summary.json",
    log:
        "logs/collect_runs.log",
    conda:
        "../../envs/hpcai.yaml"
    params:
        title=CAMPAIGN.study.title,
        library=library_of("workflow/scripts/collect_runs.py"),
    script:
        "../scripts/collect_runs.py"


rule collect_groups:
    input:
        records=RECORDS_TO_ANALYSE,
        groups=WEAK_GROUPS,
        scales="results/tables/scales.parquet",
    output:
        tables=table_files(GROUP_TABLES),
    log:
        "logs/collect_groups.log",
    conda:
        "../../envs/hpcai.yaml"
    params:
        machine=CAMPAIGN.machine.model_dump(mode="json"),
        library=library_of("workflow/scripts/collect_groups.py"),
    script:
        "../scripts/collect_groups.py"


rule show_runs:
    input:
        tables_of("analyse"),
    output:
        figures=figures_of("analyse"),
    log:
        "logs/show_runs.log",
    conda:
        "../../envs/hpcai.yaml"
    params:
        library=PLOT_LIBRARY,
    script:
        "../scripts/show_stage.py"
