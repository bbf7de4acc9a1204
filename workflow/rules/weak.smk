# Reads:  manifests of dataset and shards
# Writes: results/weak/{benchmark}/{variant}/{scale}/group.json, and the runs i1/, i2/, ... of its instances
# One job measures all instances of a weak-scaling group, because they must train at the same time. A published group is
# only republished, whatever made Snakemake call `hpcai measure-weak`.


if CAMPAIGN.study.measure:

    rule train_together:
        input:
            manifest=run_manifest,
            pack=run_pack,
        output:
            group="results/weak/{benchmark}/{variant}/{scale}/group.json",
        log:
            "logs/train_together/{benchmark}.{variant}.{scale}.log",
        conda:
            "../../envs/hpcai.yaml"
        envmodules:
            *CAMPAIGN.machine.modules,
        threads: ALL_CORES
        resources:
            **whole_nodes(nodes_of_group, RUN_LIMIT_S),
        params:
            folder=subpath(output.group, parent=True),
            plans=plans_of_group,
            settings=settings_of_group,
        shell:
            """
            hpcai measure-weak \
                --plans {params.plans:q} \
                --manifest {input.manifest:q} \
                --pack {input.pack:q} \
                --launcher {resources.launcher:q} \
                --folder {params.folder:q} \
                --log {log:q}
            """
