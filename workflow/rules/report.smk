# Reads:  everything that the analysis made
# Writes: results/report.html, one file that opens offline


rule report:
    input:
        ANALYSES,
        sources=REPORT_SOURCES,
    output:
        html="results/report.html",
    log:
        "logs/report.log",
    conda:
        "../../envs/hpcai.yaml"
    params:
        snakefile=workflow.main_snakefile,
        settings=CLI_SETTINGS,
        stylesheet=str(ROOT / "reports" / "stylesheet.css"),
    shell:
        """
        exec &> {log:q}
        snakemake analyse \
            --snakefile {params.snakefile:q} \
            --config {params.settings:q} \
            --nolock \
            --report {output.html:q} \
            --report-stylesheet {params.stylesheet:q}
        """
