# Reads:  manifests of dataset and shards
# Writes: results/characterise/gemm.json, results/tables/gemm.html,
#         results/profiles/timeline/.../record.json and its raw/timeline.json
#
# A profiled run is never a timed run: it has a folder, a seed and a plan of its own and ends after a few steps.


if CAMPAIGN.study.measure:

    rule measure_gemm:
        output:
            gemm="results/characterise/gemm.json",
        log:
            "logs/measure_gemm.log",
        conda:
            "../../envs/hpcai.yaml"
        resources:
            machine=1,
        params:
            threads=sorted(
                {CAMPAIGN.machine.cores_per_rank, CAMPAIGN.machine.cores_per_node}
            ),
        script:
            "../scripts/measure_gemm.py"

    use rule plan_run as plan_profile with:
        output:
            plan="results/profiles/{profile}/{benchmark}/{variant}/{scale}/{repetition}/plan.json",
        log:
            "logs/plan_profile/{profile}/{benchmark}.{variant}.{scale}.{repetition}.log",
        params:
            plan=profile_plan,

    rule profile_run:
        input:
            plan="results/profiles/{profile}/{benchmark}/{variant}/{scale}/{repetition}/plan.json",
            manifest=run_manifest,
            pack=run_pack,
        output:
            capture="results/profiles/{profile}/{benchmark}/{variant}/{scale}/{repetition}/capture.json",
        log:
            "logs/profile_run/{profile}/{benchmark}.{variant}.{scale}.{repetition}.log",
        conda:
            "../../envs/hpcai.yaml"
        resources:
            machine=1,
        params:
            folder=subpath(output.capture, parent=True),
        shell:
            """
            hpcai capture \
                --plan {input.plan:q} \
                --manifest {input.manifest:q} \
                --pack {input.pack:q} \
                --launcher {resources.launcher:q} \
                --folder {params.folder:q} \
                --log {log:q}
            """


rule show_gemm:
    input:
        gemm="results/characterise/gemm.json",
    output:
        page=report(
            "results/tables/gemm.html",
            caption="../../reports/captions/gemm.rst",
            category="Kernels",
            labels={"figure": "Measured GEMM rates"},
        ),
    log:
        "logs/show_gemm.log",
    conda:
        "../../envs/hpcai.yaml"
    params:
        title="Measured GEMM rates",
        note="Measured: the fastest product of each precision and number of threads on this machine.",
        library=library_digest("characterise/gemm.py", "plots"),
    script:
        "../scripts/show_gemm.py"
