# Reads:  manifests of dataset and shards
# Writes: results/runs/{benchmark}/{variant}/{scale}/{repetition}/record.json, its raw/ and attempts/
# The controller writes the plans before the first job (plans.smk).
# `hpcai measure` republishes a finished run instead of repeating it, whatever made Snakemake call it.
# With `measure: false` these rules do not exist: only existing results are analysed, and nothing is measured by
# accident.


if CAMPAIGN.study.measure:

    rule train:
        input:
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
            plans="results/runs/{benchmark}/{variant}/{scale}/{repetition}/plan.json",
            settings=settings_of_run,
        shell:
            """
            hpcai measure \
                --plan {params.plans:q} \
                --manifest {input.manifest:q} \
                --pack {input.pack:q} \
                --launcher {resources.launcher:q} \
                --folder {params.folder:q} \
                --log {log:q}
            """
