# Reads:  captures, reports of ceilings and of work, results/tables/scales.parquet
# Writes: results/characterise/{profile}/*.parquet, results/tables of all views, results/characterisation.json
#
# One job reads all captures of one kind; a raw file that cannot be read costs its own rows.


READ_LIBRARY = library_of("workflow/scripts/read_profiles.py")


rule read_timelines:
    input:
        captures=captures_of("timeline"),
    output:
        captures="results/characterise/timeline/captures.parquet",
        phases="results/characterise/timeline/phases.parquet",
        communication="results/characterise/timeline/communication.parquet",
        messages="results/characterise/timeline/messages.parquet",
        lanes="results/characterise/timeline/lanes.parquet",
    log:
        "logs/read_timelines.log",
    conda:
        "../../envs/hpcai.yaml"
    params:
        profile="timeline",
        library=READ_LIBRARY,
    script:
        "../scripts/read_profiles.py"


use rule read_timelines as read_kernels with:
    input:
        captures=captures_of("kernels"),
        counters=captures_of("counters"),
    output:
        captures="results/characterise/kernels/captures.parquet",
        kernels="results/characterise/kernels/kernels.parquet",
        kernel_names="results/characterise/kernels/kernel_names.parquet",
        lanes="results/characterise/kernels/lanes.parquet",
        overlap="results/characterise/kernels/overlap.parquet",
    log:
        "logs/read_kernels.log",
    params:
        profile="kernels",
        library=READ_LIBRARY,


use rule read_timelines as read_counters with:
    input:
        captures=captures_of("counters"),
    output:
        captures="results/characterise/counters/captures.parquet",
        counters="results/characterise/counters/counters.parquet",
    log:
        "logs/read_counters.log",
    params:
        profile="counters",
        library=READ_LIBRARY,


use rule read_timelines as read_io with:
    input:
        captures=captures_of("io"),
    output:
        captures="results/characterise/io/captures.parquet",
        io="results/characterise/io/io.parquet",
        io_workers="results/characterise/io/io_workers.parquet",
    log:
        "logs/read_io.log",
    params:
        profile="io",
        library=READ_LIBRARY,


use rule read_timelines as read_power with:
    input:
        captures=captures_of("power"),
    output:
        captures="results/characterise/power/captures.parquet",
        power="results/characterise/power/power.parquet",
    log:
        "logs/read_power.log",
    params:
        profile="power",
        library=READ_LIBRARY,


rule count_work:
    input:
        plan=work_plan,
        manifest=run_manifest,
    output:
        work="results/characterise/work/{benchmark}.json",
    log:
        "logs/count_work/{benchmark}.log",
    conda:
        "../../envs/hpcai.yaml"
    envmodules:
        *CAMPAIGN.machine.modules,
    params:
        library=library_of("src/hpcai/machine/work/step.py"),
    shell:
        """
        exec &>{log:q}
        python -m hpcai.machine.work.step \
            --plan {input.plan:q} \
            --manifest {input.manifest:q} \
            --output {output.work:q}
        """


rule collect_views:
    input:
        **VIEW_FILES,
        ceilings=CEILINGS,
        links=LINKS,
        work=WORK,
        scales="results/tables/scales.parquet",
    output:
        tables=expand(
            "results/tables/{view}.{kind}", view=VIEWS, kind=["csv", "parquet"]
        ),
        summary="results/characterisation.json",
    log:
        "logs/collect_views.log",
    conda:
        "../../envs/hpcai.yaml"
    params:
        views=list(VIEW_FILES),
        machine=CAMPAIGN.machine.model_dump(mode="json"),
        tolerance=TOLERANCE,
        library=library_of("workflow/scripts/collect_views.py"),
    script:
        "../scripts/collect_views.py"
