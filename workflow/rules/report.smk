# Reads:  everything that the analysis made
# Writes: results/report.html, one file that opens offline


REPORTED = [*ANALYSES, *VIEW_PAGES, "results/characterisation.json"]


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
        study="results/study.json",
        landing_page=str(ROOT / "reports" / "workflow.rst"),
        captions=[
            str(path) for path in sorted((ROOT / "reports" / "captions").glob("*.rst"))
        ],
        stylesheet=str(ROOT / "reports" / "report.css"),
    output:
        html="results/report.html",
    log:
        "logs/report.log",
    conda:
        "../../envs/hpcai.yaml"
    params:
        snakefile=workflow.main_snakefile,
    shell:
        """
        exec &>{log:q}
        snakemake {input.results:q} \
            --snakefile {params.snakefile:q} \
            --configfile {input.study:q} \
            --nolock \
            --report {output.html:q} \
            --report-stylesheet {input.stylesheet:q}
        """
