# Reads:  tables of the timed runs and of the profiles, published results, tables of earlier studies
# Writes: tables of scores, rooflines, scaling, ranking and comparison, their figures, results/scoring.json, results/hpc_ai500/


SCORE_LIBRARY = library_digest("metrics", "rules", "rules/hpc_ai500.yaml", "config")
COMPARE_LIBRARY = library_digest("compare", "metrics")
SCORES = [
    *expand("results/figures/{figure}.svg", figure=["scores", "ranking"]),
    *expand(
        "results/figures/{figure}.svg",
        figure=["variant_effects", "comparison", "history"],
    ),
    *expand(
        "results/figures/{chart}.{kind}",
        chart=["roofline", "memory_roofline", "published_roofline", "scaling"],
        kind=["json", "svg"],
    ),
    *expand("results/tables/{table}.html", table=["run_scores", "scores", "ranking"]),
    *expand(
        "results/hpc_ai500/{benchmark}/MANIFEST.sha256", benchmark=HPC_AI500_BENCHMARKS
    ),
    "results/scoring.json",
]


rule score_study:
    input:
        records=RECORDS_TO_ANALYSE,
        runs="results/tables/runs.parquet",
        scales="results/tables/scales.parquet",
        work="results/tables/work.parquet",
        power="results/tables/power.parquet",
    output:
        tables=score_tables("score_study"),
    log:
        "logs/score_study.log",
    conda:
        "../../envs/hpcai.yaml"
    params:
        machine=CAMPAIGN.machine.model_dump(mode="json"),
        library=SCORE_LIBRARY,
    script:
        "../scripts/score_study.py"


rule rank_results:
    input:
        scores=[
            f"{folder}/tables/scores.parquet"
            for folder in ["results", *RANKED_STUDIES, *IMPORTED_ROUNDS]
        ],
        published=PUBLISHED,
    output:
        tables=score_tables("rank_results"),
    log:
        "logs/rank_results.log",
    conda:
        "../../envs/hpcai.yaml"
    params:
        library=SCORE_LIBRARY,
    script:
        "../scripts/rank_results.py"


rule place_rooflines:
    input:
        scores="results/tables/scores.parquet",
        runs="results/tables/runs.parquet",
        scales="results/tables/scales.parquet",
        communication="results/tables/communication.parquet",
        ceilings="results/tables/ceilings.parquet",
        links="results/tables/links.parquet",
        link_fits="results/tables/link_fits.parquet",
        counters="results/tables/counters.parquet",
        work="results/tables/work.parquet",
        published=PUBLISHED,
    output:
        tables=score_tables("place_rooflines"),
    log:
        "logs/place_rooflines.log",
    conda:
        "../../envs/hpcai.yaml"
    params:
        machine=CAMPAIGN.machine.model_dump(mode="json"),
        library=SCORE_LIBRARY,
    script:
        "../scripts/place_rooflines.py"


rule explain_scaling:
    input:
        runs="results/tables/runs.parquet",
        scales="results/tables/scales.parquet",
        run_scores="results/tables/run_scores.parquet",
        scores="results/tables/scores.parquet",
        communication="results/tables/communication.parquet",
        links="results/tables/links.parquet",
        link_fits="results/tables/link_fits.parquet",
    output:
        tables=score_tables("explain_scaling"),
    log:
        "logs/explain_scaling.log",
    conda:
        "../../envs/hpcai.yaml"
    params:
        machine=CAMPAIGN.machine.model_dump(mode="json"),
        library=SCORE_LIBRARY,
    script:
        "../scripts/explain_scaling.py"


rule compare_studies:
    input:
        records=RECORDS_TO_ANALYSE,
        run_scores="results/tables/run_scores.parquet",
        scores="results/tables/scores.parquet",
        study="results/study.json",
        earlier=[f"{folder}/tables/runs.parquet" for folder in EARLIER_STUDIES],
    output:
        tables=score_tables("compare_studies"),
    log:
        "logs/compare_studies.log",
    conda:
        "../../envs/hpcai.yaml"
    params:
        earlier=EARLIER_STUDIES,
        library=COMPARE_LIBRARY,
    script:
        "../scripts/compare_studies.py"


rule summarise_scoring:
    input:
        tables=[
            f"results/tables/{table}.parquet"
            for tables in SCORE_TABLES.values()
            for table in tables
        ],
    output:
        summary="results/scoring.json",
    log:
        "logs/summarise_scoring.log",
    conda:
        "../../envs/hpcai.yaml"
    params:
        library=TABLE_LIBRARY,
    script:
        "../scripts/summarise_scoring.py"


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
        library=library_digest(
            "report/hpc_ai500",
            "metrics",
            "rules",
            "records.py",
            "measure/provenance.py",
        ),
    script:
        "../scripts/write_document.py"


rule draw_roofline:
    input:
        roofline_points="results/tables/roofline_points.parquet",
        roofline_ceilings="results/tables/roofline_ceilings.parquet",
        roofline_moves="results/tables/roofline_moves.parquet",
    output:
        figure=report(
            "results/figures/roofline.svg",
            caption="../../reports/captions/roofline.rst",
            category="Roofline",
            labels={"figure": "HPC-AI roofline"},
        ),
        chart="results/figures/roofline.json",
    log:
        "logs/draw_roofline.log",
    conda:
        "../../envs/hpcai.yaml"
    params:
        chart="roofline",
        library=PLOT_LIBRARY,
    script:
        "../scripts/draw_chart.py"


use rule draw_roofline as draw_memory_roofline with:
    input:
        roofline_points="results/tables/roofline_points.parquet",
        roofline_ceilings="results/tables/roofline_ceilings.parquet",
    output:
        figure=report(
            "results/figures/memory_roofline.svg",
            caption="../../reports/captions/memory_roofline.rst",
            category="Roofline",
            labels={"figure": "Memory roofline"},
        ),
        chart="results/figures/memory_roofline.json",
    log:
        "logs/draw_memory_roofline.log",
    params:
        chart="memory_roofline",
        library=PLOT_LIBRARY,


use rule draw_roofline as draw_published_roofline with:
    input:
        published_points="results/tables/published_points.parquet",
        published_ceilings="results/tables/published_ceilings.parquet",
        published_moves="results/tables/published_moves.parquet",
    output:
        figure=report(
            "results/figures/published_roofline.svg",
            caption="../../reports/captions/published_roofline.rst",
            category="Roofline",
            labels={"figure": "Published results under their roofs"},
        ),
        chart="results/figures/published_roofline.json",
    log:
        "logs/draw_published_roofline.log",
    params:
        chart="published_roofline",
        library=PLOT_LIBRARY,


use rule draw_roofline as draw_scaling with:
    input:
        scaling="results/tables/scaling.parquet",
        scaling_details="results/tables/scaling_details.parquet",
        scaling_curves="results/tables/scaling_curves.parquet",
        predictions="results/tables/predictions.parquet",
    output:
        figure=report(
            "results/figures/scaling.svg",
            caption="../../reports/captions/scaling.rst",
            category="Scaling",
            labels={"figure": "Speed-up and parallel efficiency"},
        ),
        chart="results/figures/scaling.json",
    log:
        "logs/draw_scaling.log",
    params:
        chart="scaling",
        library=PLOT_LIBRARY,


use rule plot_time_to_train as plot_scores with:
    input:
        run_scores="results/tables/run_scores.parquet",
        scores="results/tables/scores.parquet",
    output:
        figure=report(
            "results/figures/scores.svg",
            caption="../../reports/captions/scores.rst",
            category="Scores",
            labels={"figure": "FLOPS and VFLOPS"},
        ),
    log:
        "logs/plot_scores.log",
    params:
        figure="scores",
        library=PLOT_LIBRARY,


use rule plot_time_to_train as plot_ranking with:
    input:
        ranking="results/tables/ranking.parquet",
    output:
        figure=report(
            "results/figures/ranking.svg",
            caption="../../reports/captions/ranking.rst",
            category="Scores",
            labels={"figure": "Ranking"},
        ),
    log:
        "logs/plot_ranking.log",
    params:
        figure="ranking",
        library=PLOT_LIBRARY,


use rule plot_time_to_train as plot_variant_effects with:
    input:
        variant_effects="results/tables/variant_effects.parquet",
    output:
        figure=report(
            "results/figures/variant_effects.svg",
            caption="../../reports/captions/variant_effects.rst",
            category="Scaling",
            labels={"figure": "Effect of variants"},
        ),
    log:
        "logs/plot_variant_effects.log",
    params:
        figure="variant_effects",
        library=PLOT_LIBRARY,


use rule plot_time_to_train as plot_comparison with:
    input:
        comparison="results/tables/comparison.parquet",
    output:
        figure=report(
            "results/figures/comparison.svg",
            caption="../../reports/captions/comparison.rst",
            category="Scores",
            labels={"figure": "Against an earlier study"},
        ),
    log:
        "logs/plot_comparison.log",
    params:
        figure="comparison",
        library=PLOT_LIBRARY,


use rule plot_time_to_train as plot_history with:
    input:
        history="results/tables/history.parquet",
    output:
        figure=report(
            "results/figures/history.svg",
            caption="../../reports/captions/history.rst",
            category="Scores",
            labels={"figure": "Over many studies"},
        ),
    log:
        "logs/plot_history.log",
    params:
        figure="history",
        library=PLOT_LIBRARY,


use rule show_runs as show_run_scores with:
    input:
        table="results/tables/run_scores.parquet",
    output:
        page=report(
            "results/tables/run_scores.html",
            caption="../../reports/captions/run_scores.rst",
            category="Scores",
            labels={"figure": "Table of scores of all runs"},
        ),
    log:
        "logs/show_run_scores.log",
    params:
        table="run_scores",
        title="Scores of all runs",
        note="One row per timed run. Empty: not measured, or not defined (the column reason says which).",
        library=PLOT_LIBRARY,


use rule show_runs as show_scores with:
    input:
        table="results/tables/scores.parquet",
    output:
        page=report(
            "results/tables/scores.html",
            caption="../../reports/captions/scores.rst",
            category="Scores",
            labels={"figure": "Table of scores"},
        ),
    log:
        "logs/show_scores.log",
    params:
        table="scores",
        title="Scores",
        note="One row per benchmark, variant and scale. Empty: not measured, or not defined (the column reason says which).",
        library=PLOT_LIBRARY,


use rule show_runs as show_ranking with:
    input:
        table="results/tables/ranking.parquet",
    output:
        page=report(
            "results/tables/ranking.html",
            caption="../../reports/captions/ranking.rst",
            category="Scores",
            labels={"figure": "Table of ranks"},
        ),
    log:
        "logs/show_ranking.log",
    params:
        table="ranking",
        title="Ranking",
        note="Like with like only: one list for each workload, dataset, target and exponent.",
        library=PLOT_LIBRARY,
