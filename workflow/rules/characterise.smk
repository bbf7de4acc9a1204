# Reads:  manifests of dataset and shards
# Writes: results/characterise/{gemm,convolution,memory,storage,allreduce_LINK}.json,
#         results/profiles/{profile}/.../capture.json and its raw files
# A profiled run is never a timed run: it has its own folder, seed and plan, and ends after a few steps.


if CAMPAIGN.study.measure:

    rule measure_ceiling:
        output:
            report="results/characterise/{ceiling}.json",
        log:
            "logs/measure_ceiling/{ceiling}.log",
        wildcard_constraints:
            ceiling="gemm|convolution|memory",
        conda:
            "../../envs/hpcai.yaml"
        envmodules:
            *CAMPAIGN.machine.modules,
        threads: ALL_CORES
        resources:
            **whole_nodes(1, MACHINE_LIMIT_S),
        params:
            **in_image(),
            what="{ceiling}",
            device=CAMPAIGN.machine.device.kind,
            threads=CEILING_THREADS,
        script:
            "../scripts/measure_ceiling.py"

    rule measure_storage:
        output:
            report="results/characterise/storage.json",
        log:
            "logs/measure_storage.log",
        conda:
            "../../envs/hpcai.yaml"
        envmodules:
            *CAMPAIGN.machine.modules,
        threads: ALL_CORES
        resources:
            **whole_nodes(1, MACHINE_LIMIT_S),
        params:
            places={
                "node-local": CAMPAIGN.machine.storage.node_local,
                "shared": ".",
            },
        script:
            "../scripts/measure_storage.py"

    rule measure_allreduce:
        output:
            report="results/characterise/allreduce_{link}.json",
        log:
            "logs/measure_allreduce/{link}.log",
        conda:
            "../../envs/hpcai.yaml"
        envmodules:
            *CAMPAIGN.machine.modules,
        threads: ALL_CORES
        resources:
            **whole_nodes(nodes_of_link, MACHINE_LIMIT_S),
        params:
            **in_image(),
            nodes=lambda wildcards: LINK_POINTS[wildcards.link].nodes,
            ranks_per_node=lambda wildcards: LINK_POINTS[wildcards.link].ranks_per_node,
            cores_per_rank=CAMPAIGN.machine.cores_per_rank,
            device=CAMPAIGN.machine.device.kind,
        script:
            "../scripts/measure_allreduce.py"

    rule profile_run:
        input:
            manifest=run_manifest,
            pack=run_pack,
        output:
            capture="results/profiles/{profile}/{benchmark}/{variant}/{scale}/{repetition}/capture.json",
        log:
            "logs/profile_run/{profile}/{benchmark}.{variant}.{scale}.{repetition}.log",
        conda:
            "../../envs/hpcai.yaml"
        envmodules:
            *CAMPAIGN.machine.modules,
        threads: ALL_CORES
        resources:
            **whole_nodes(nodes_of_scale, RUN_LIMIT_S),
        params:
            folder=subpath(output.capture, parent=True),
            plans=plan_of_profile,
            settings=settings_of_profile,
        shell:
            """
            hpcai capture \
                --plan {params.plans:q} \
                --manifest {input.manifest:q} \
                --pack {input.pack:q} \
                --launcher {resources.launcher:q} \
                --folder {params.folder:q} \
                --log {log:q}
            """
