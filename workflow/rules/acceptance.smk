# Reads:  manifests of dataset and shards
# Writes: results/acceptance/measurements.json, acceptance.json and acceptance.csv, results/acceptance.html
# One job measures all nodes, so that those that share nothing work at the same time. An acceptance is repeated by
# `snakemake acceptance --forcerun measure_acceptance`.


if CAMPAIGN.study.measure:

    rule measure_acceptance:
        input:
            manifest=acceptance_manifest,
            pack=acceptance_pack,
        output:
            measurements="results/acceptance/measurements.json",
        log:
            "logs/measure_acceptance.log",
        conda:
            "../../envs/hpcai.yaml"
        envmodules:
            *CAMPAIGN.machine.modules,
        threads: ALL_CORES
        resources:
            **whole_nodes(
                CAMPAIGN.study.acceptance.nodes or CAMPAIGN.machine.nodes,
                CAMPAIGN.study.acceptance.limit_s,
                # A node that fails is a result, and the others go on.
                "--no-kill",
            ),
        params:
            plan=acceptance_plan,
            settings=CAMPAIGN.study.acceptance.model_dump(mode="json"),
        script:
            "../scripts/measure_acceptance.py"


rule judge_acceptance:
    input:
        measurements="results/acceptance/measurements.json",
        sources=REPORT_SOURCES,
    output:
        judged="results/acceptance/acceptance.json",
        table="results/acceptance/acceptance.csv",
        html="results/acceptance.html",
    log:
        "logs/judge_acceptance.log",
    conda:
        "../../envs/hpcai.yaml"
    params:
        library=library_of("workflow/scripts/judge_acceptance.py"),
    script:
        "../scripts/judge_acceptance.py"
