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
            plan="results/profiles/timeline/{benchmark}/{variant}/{scale}/{repetition}/plan.json",
        log:
            "logs/plan_profile/{benchmark}.{variant}.{scale}.{repetition}.log",
        params:
            plan=profile_plan,

    use rule train as profile_timeline with:
        input:
            plan="results/profiles/timeline/{benchmark}/{variant}/{scale}/{repetition}/plan.json",
            manifest=run_manifest,
            pack=run_pack,
        output:
            record="results/profiles/timeline/{benchmark}/{variant}/{scale}/{repetition}/record.json",
        log:
            "logs/profile_timeline/{benchmark}.{variant}.{scale}.{repetition}.log",


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
