# Reads:  captures, reports of ceilings and of work, results/tables/scales.parquet
# Writes: results/characterise/{profile}/*.parquet, results/tables of all views, results/characterisation.json
# One job reads all captures of one kind; an unreadable raw file loses only its own rows.


from hpcai.profiles.view_names import VIEW_NAMES

READ_LIBRARY = library_of("workflow/scripts/read_profiles.py")

for KIND, FACTS in PROFILES.items():

    rule:
        name:
            f"read_{KIND}"
        input:
            captures=captures_of(KIND),
            also=captures_of(FACTS.also) if FACTS.also else [],
        output:
            **{
                view: f"results/characterise/{KIND}/{view}.parquet"
                for view in FACTS.views
            },
        log:
            f"logs/read_{KIND}.log",
        conda:
            "../../envs/hpcai.yaml"
        params:
            profile=KIND,
            library=READ_LIBRARY,
        script:
            "../scripts/read_profiles.py"


rule count_work:
    input:
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
        plans=work_plan,
        settings=settings_of_work,
        library=library_of("src/hpcai/machine/work/step.py"),
    shell:
        """
        exec &>{log:q}
        python -m hpcai.machine.work.step \
            --plan {params.plans:q} \
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
            "results/tables/{view}.{kind}", view=VIEW_NAMES, kind=["csv", "parquet"]
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
