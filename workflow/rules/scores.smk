# Reads:  tables of the timed runs and of the profiles, published results, tables of earlier studies
# Writes: tables of scores, rooflines, scaling, ranking and comparison, their figures, results/scoring.json, results/hpc_ai500/


CHARTS = figures_of("scores", kind=catalogue.CHARTS)
CHART_FILES = [str(chart).replace(".svg", ".json") for chart in CHARTS]
SCORES = [
    *plain(figures_of("scores") + CHARTS),
    *CHART_FILES,
    *expand(
        "results/hpc_ai500/{benchmark}/MANIFEST.sha256", benchmark=HPC_AI500_BENCHMARKS
    ),
    "results/scoring.json",
]
# Tables of this study that scores, rooflines, scaling and the machine's overview are computed from.
SCORED = ["runs", "scales", "work", "power", "communication"]
SCORED += ["ceilings", "links", "link_fits", "counters"]
# Results folders whose scores are ranked with this study's.
RANKED = [*RANKED_STUDIES, *IMPORTED_ROUNDS]
# Runs of HPL on this machine that are there already: no score waits for them.
HPL_RUNS = [*map(str, Path("results/predict", CAMPAIGN.machine.name).glob("hpl.json"))]


rule score_study:
    input:
        records=RECORDS_TO_ANALYSE,
        views=expand("results/tables/{table}.parquet", table=SCORED),
        others=expand("{folder}/tables/scores.parquet", folder=RANKED),
        systems=expand("{folder}/tables/mlperf_systems.parquet", folder=IMPORTED_ROUNDS),
        published=PUBLISHED,
        study="results/study.json",
        earlier=expand("{folder}/tables/runs.parquet", folder=EARLIER_STUDIES),
        hpl=HPL_RUNS,
    output:
        tables=table_files(SCORE_TABLES),
        summary="results/scoring.json",
    log:
        "logs/score_study.log",
    conda:
        "../../envs/hpcai.yaml"
    params:
        machine=CAMPAIGN.machine.model_dump(mode="json"),
        earlier=EARLIER_STUDIES,
        others=[*RANKED_STUDIES, *EARLIER_STUDIES, *IMPORTED_ROUNDS],
        hpl_outputs=HPL_OUTPUTS,
        state=state_of_others,
        library=library_of("workflow/scripts/score_study.py"),
    script:
        "../scripts/score_study.py"


use rule show_runs as show_scores with:
    input:
        tables_of("scores"),
    output:
        figures=figures_of("scores"),
    log:
        "logs/show_scores.log",


# Beside the figures: each takes a core for seconds at the end of a study, when nothing else is left to do.
use rule show_runs as chart_scores with:
    input:
        tables_of_charts,
    output:
        charts=CHARTS,
        chart_files=CHART_FILES,
    log:
        "logs/chart_scores.log",


rule write_document:
    input:
        records=records_of_benchmark,
        run_scores="results/tables/run_scores.parquet",
        scores="results/tables/scores.parquet",
        links="results/tables/links.parquet",
        link_fits="results/tables/link_fits.parquet",
        evidence=[*LINKS, *WORK],
    output:
        manifest="results/hpc_ai500/{benchmark}/MANIFEST.sha256",
        document="results/hpc_ai500/{benchmark}/report.json",
    log:
        "logs/write_document/{benchmark}.log",
    conda:
        "../../envs/hpcai.yaml"
    params:
        machine=CAMPAIGN.machine.model_dump(mode="json"),
        study=CAMPAIGN.study.model_dump(mode="json"),
        library=library_of("workflow/scripts/write_document.py"),
    script:
        "../scripts/write_document.py"
