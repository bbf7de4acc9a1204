# Reads:  manifests of dataset and shards
# Writes: results/runs/{benchmark}/{variant}/{scale}/{repetition}/record.json, its raw/ and attempts/
# `hpcai measure` republishes a finished run instead of repeating it, whatever made Snakemake call it.
# With `measure: false` these rules do not exist: only existing results are analysed, and nothing is measured by
# accident.


if CAMPAIGN.study.measure:

    rule plan_run:
        output:
            plan="results/runs/{benchmark}/{variant}/{scale}/{repetition}/plan.json",
        log:
            "logs/plan_run/{benchmark}.{variant}.{scale}.{repetition}.log",
        priority: DATA_FIRST
        conda:
            "../../envs/hpcai.yaml"
        params:
            plan=run_plan,
        shell:
            """
            exec &>{log:q}
            printf '%s\n' {params.plan:q} >{output.plan:q}
            """

    rule train:
        input:
            plan="results/runs/{benchmark}/{variant}/{scale}/{repetition}/plan.json",
            manifest=run_manifest,
            pack=run_pack,
        output:
            record="results/runs/{benchmark}/{variant}/{scale}/{repetition}/record.json",
        log:
            "logs/train/{benchmark}.{variant}.{scale}.{repetition}.log",
        priority: run_priority
        conda:
            "../../envs/hpcai.yaml"
        envmodules:
            *CAMPAIGN.machine.modules,
        threads: ALL_CORES
        resources:
            **whole_nodes(nodes_of_scale, RUN_LIMIT_S),
        params:
            folder=subpath(output.record, parent=True),
        shell:
            """
            hpcai measure \
                --plan {input.plan:q} \
                --manifest {input.manifest:q} \
                --pack {input.pack:q} \
                --launcher {resources.launcher:q} \
                --folder {params.folder:q} \
                --log {log:q}
            """
