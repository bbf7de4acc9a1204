# Reads:  all results of the analysis
# Writes: results/report.html, which people read, results/ro-crate-metadata.json, which describes the folder to programs,
#         results/workflow_report.html, how Snakemake made it, and results/outcomes.json


REPORTED = [
    *ANALYSES,
    *VIEW_FIGURES,
    *SCORES,
    *round_parts("results"),
    "results/characterisation.json",
]
REPORT_SOURCES = [
    str(path)
    for pattern in ["workflow.rst", "captions/*.rst", "page/*"]
    for path in sorted((ROOT / "reports").glob(pattern))
]
# Copied beside the results, so that the folder is complete by itself.
WORKFLOW_FILES = [
    str(ROOT / "workflow/Snakefile"),
    *map(str, sorted((ROOT / "workflow/rules").glob("*.smk"))),
]
# Rendered once, by the library, and used unchanged in Snakemake's report.
CAPTIONS = [Path(path).stem for path in REPORT_SOURCES if path.endswith(".rst")]


report: Path("results/captions/workflow.rst").absolute()


rule write_study:
    output:
        study="results/study.json",
    log:
        "logs/write_study.log",
    conda:
        "../../envs/hpcai.yaml"
    params:
        study=CAMPAIGN.study.model_dump(mode="json"),
    script:
        "../scripts/write_study.py"


rule report:
    input:
        results=REPORTED,
        predictions=predictions,
        study="results/study.json",
        records=RECORDS_TO_ANALYSE,
        sources=REPORT_SOURCES,
    output:
        html="results/report.html",
        crate="results/ro-crate-metadata.json",
        captions=expand("results/captions/{name}.rst", name=CAPTIONS),
    log:
        "logs/report.log",
    conda:
        "../../envs/hpcai.yaml"
    params:
        library=library_of("workflow/scripts/write_report.py"),
        workflow=WORKFLOW_FILES,
        sources=lambda _: str(ROOT / "reports"),  # not a prefix of an input
    script:
        "../scripts/write_report.py"


rule workflow_report:
    input:
        results=REPORTED,
        predictions=predictions,
        captions=rules.report.output.captions,
        study="results/study.json",
        stylesheet=str(ROOT / "reports" / "report.css"),
    output:
        html="results/workflow_report.html",
    log:
        "logs/workflow_report.log",
    conda:
        "../../envs/hpcai.yaml"
    params:
        snakefile=str(ROOT / "workflow/Snakefile"),
        tables=config_dir_setting(
            named_folder(CAMPAIGN.study.config_dir) or CONFIGURATION
        ),
    shell:
        """
        exec &>{log:q}
        snakemake {input.results:q} {input.predictions:q} \
            --snakefile {params.snakefile:q} \
            --configfile {input.study:q} \
            --config {params.tables:q} \
            --nolock \
            --report {output.html:q} \
            --report-stylesheet {input.stylesheet:q}
        """


# Runs last, after the report: a study with points without a result ends with an error.
rule require_results:
    input:
        records=RECORDS_TO_ANALYSE,
        groups=WEAK_GROUPS,
        reports=["results/report.html", "results/workflow_report.html"],
    output:
        outcomes="results/outcomes.json",
    log:
        "logs/require_results.log",
    conda:
        "../../envs/hpcai.yaml"
    params:
        library=library_of("workflow/scripts/require_results.py"),
    script:
        "../scripts/require_results.py"
