# Reads:  tables of the timed runs, ceilings and links; the models of the benchmarks
# Writes: results/predict/{machine}/ (measured once per machine), tables and figures of the predictors
#
# Measured and modelled numbers never share a table without a column `method`.


MACHINE = CAMPAIGN.machine.name
PREDICT = CAMPAIGN.study.predict
# Measured on this machine if the study requests it; another study of the same machine reuses it.
OF_MACHINE = {
    what: present_or_planned([f"results/{file}" for file in files])
    for what, files in PREDICT.measured_files(MACHINE).items()
}
# Compiled if the machine file names HPL's source and no command of the site's own.
HPL = CAMPAIGN.machine.hpl
HPL_BUILD = (
    [f"results/predict/{MACHINE}/hpl_build.json"]
    if HPL and HPL.source and not HPL.command
    else []
)
LAYERS = present_or_planned(
    [f"results/characterise/layers/{benchmark}.json" for benchmark in MEASURED]
)
REGRESSORS = f"results/predict/{MACHINE}/regressors.json"
# Predictions come after the report, never before it. Their rules always exist; targets differ: `predict` requests all
# of them, every other target only the existing ones. Input functions decide when the targets are known.
MEASURED_PREDICTIONS = {
    "fit_kernels": OF_MACHINE["kernel_times"],
    "validate_hpl": [*OF_MACHINE["blas_rates"], *OF_MACHINE["hpl"]],
    "predict_study": [*LAYERS, REGRESSORS, *OF_MACHINE["step_blocks"]],
    "sum_blocks": OF_MACHINE["step_blocks"],
    "predict_scales": OF_MACHINE["step_blocks"],
    "judge_steps": [*OF_MACHINE["reference_steps"], REGRESSORS],
}
# Without their measurement these have nothing to tell; the others have the study's own runs and links.
ONLY_MEASURED = ["fit_kernels", "validate_hpl"]
# Kernels and the steps that their regressors are judged on take longer than all else together: a target of their own.
OF_REGRESSORS = ["fit_kernels", "judge_steps"]
MEASURED_TABLES = [
    table
    for one in MEASURED_PREDICTIONS
    if one not in OF_REGRESSORS
    for table in PREDICTION_TABLES[one]
]


# Tables read by the report's texts, without every point of a curve.
SAID_OF_PREDICTIONS = [
    *["hpl_published", "hpl_validation", "training_networks"],
    *["prediction_findings", "kernel_accuracy", "step_accuracy", "predictions"],
    "prediction_accuracy",
    "block_kinds",
]

if CAMPAIGN.study.measure:

    rule measure_kernels:
        output:
            times="results/predict/{machine}/{family}/times.parquet",
        log:
            "logs/measure_kernels/{machine}.{family}.log",
        conda:
            "../../envs/hpcai.yaml"
        envmodules:
            *CAMPAIGN.machine.modules,
        threads: ALL_CORES
        resources:
            **whole_nodes(1, MACHINE_LIMIT_S),
        params:
            **in_image(),
            samples=PREDICT.kernel_samples,
            seed=PREDICT.kernel_seed,
            passes=PREDICT.kernel_passes,
            family="{family}",
            draft="results/predict/{machine}/{family}/draft.jsonl",
        script:
            "../scripts/measure_kernels.py"

    rule measure_blocks:
        input:
            manifests=manifests_of_blocks,
            packs=packs_of_blocks,
        output:
            report="results/predict/{machine}/step_blocks.json",
        log:
            "logs/measure_blocks/{machine}.log",
        conda:
            "../../envs/hpcai.yaml"
        envmodules:
            *CAMPAIGN.machine.modules,
        threads: ALL_CORES
        resources:
            **whole_nodes(1, MACHINE_LIMIT_S),
        params:
            **in_image(),
            networks=list(PREDICT.reference_networks),
            samples=PREDICT.block_samples,
            plans=plans_of_blocks,
            settings=settings_of_blocks,
        script:
            "../scripts/measure_blocks.py"

    rule measure_reference_steps:
        output:
            report="results/predict/{machine}/reference_steps.json",
        log:
            "logs/measure_reference_steps/{machine}.log",
        conda:
            "../../envs/hpcai.yaml"
        envmodules:
            *CAMPAIGN.machine.modules,
        threads: ALL_CORES
        resources:
            **whole_nodes(1, MACHINE_LIMIT_S),
        params:
            **in_image(),
            networks=list(PREDICT.reference_networks),
        script:
            "../scripts/measure_reference_steps.py"

    rule build_hpl:
        output:
            report="results/predict/{machine}/hpl_build.json",
        log:
            "logs/build_hpl/{machine}.log",
        conda:
            "../../envs/hpcai.yaml"
        envmodules:
            *CAMPAIGN.machine.modules,
        threads: ALL_CORES
        resources:
            **whole_nodes(1, MACHINE_LIMIT_S),
        params:
            source=HPL.source if HPL else "",
            sha256=HPL.source_sha256 if HPL else "",
        script:
            "../scripts/build_hpl.py"

    rule run_hpl:
        input:
            build=HPL_BUILD,
        output:
            report="results/predict/{machine}/hpl.json",
            rates="results/predict/{machine}/blas_rates.json",
        log:
            "logs/run_hpl/{machine}.log",
        conda:
            "../../envs/hpcai.yaml"
        envmodules:
            *CAMPAIGN.machine.modules,
        threads: ALL_CORES
        resources:
            **whole_nodes(1, MACHINE_LIMIT_S),
        params:
            tests=[test.model_dump() for test in PREDICT.hpl_tests],
            command=list(HPL.command if HPL else ()),
            repeats=PREDICT.hpl_repeats,
        script:
            "../scripts/run_hpl.py"


rule list_layers:
    input:
        manifest=run_manifest,
    output:
        layers="results/characterise/layers/{benchmark}.json",
    log:
        "logs/list_layers/{benchmark}.log",
    conda:
        "../../envs/hpcai.yaml"
    envmodules:
        *CAMPAIGN.machine.modules,
    params:
        plans=work_plan,
        settings=settings_of_work,
        library=library_of("src/hpcai/machine/work/layers.py"),
    shell:
        """
        exec &>{log:q}
        python -m hpcai.machine.work.layers \
            --plan {params.plans:q} \
            --manifest {input.manifest:q} \
            --output {output.layers:q}
        """


rule fit_kernels:
    input:
        times=kernel_times,
    output:
        regressors=REGRESSORS,
        tables=prediction_tables("fit_kernels"),
    log:
        "logs/fit_kernels.log",
    conda:
        "../../envs/hpcai.yaml"
    threads: ALL_CORES
    resources:
        # Without it a cluster would be asked for as many cores as the controller's host has.
        cpus_per_task=CAMPAIGN.machine.cores_per_node,
    params:
        seed=PREDICT.kernel_seed,
        library=library_of("workflow/scripts/fit_kernels.py"),
    script:
        "../scripts/fit_kernels.py"


rule predict_published:
    input:
        machines=expand(
            str(ROOT / "config/machines/paper_hu_lu_{gpus}gpu.yaml"), gpus=[2, 4]
        ),
    output:
        tables=prediction_tables("predict_published"),
    log:
        "logs/predict_published.log",
    conda:
        "../../envs/hpcai.yaml"
    params:
        machine=CAMPAIGN.machine.model_dump(mode="json"),
        library=library_of("workflow/scripts/predict_published.py"),
    script:
        "../scripts/predict_published.py"


rule validate_hpl:
    input:
        rates=OF_MACHINE["blas_rates"],
        runs=OF_MACHINE["hpl"],
    output:
        tables=prediction_tables("validate_hpl"),
    log:
        "logs/validate_hpl.log",
    conda:
        "../../envs/hpcai.yaml"
    params:
        tolerance=TOLERANCE,
        library=library_of("workflow/scripts/validate_hpl.py"),
    script:
        "../scripts/validate_hpl.py"


rule predict_study:
    input:
        scales="results/tables/scales.parquet",
        scores="results/tables/scores.parquet",
        runs="results/tables/runs.parquet",
        link_fits="results/tables/link_fits.parquet",
        ceilings="results/tables/ceilings.parquet",
        layers=LAYERS,
        regressors=REGRESSORS,
        steps=OF_MACHINE["step_blocks"],
        mlperf_results="results/tables/mlperf_results.parquet",
        mlperf_systems="results/tables/mlperf_systems.parquet",
    output:
        tables=prediction_tables("predict_study"),
    log:
        "logs/predict_study.log",
    conda:
        "../../envs/hpcai.yaml"
    params:
        machine=CAMPAIGN.machine.model_dump(mode="json"),
        predict=PREDICT.model_dump(mode="json"),
        library=library_of("workflow/scripts/predict_study.py"),
    script:
        "../scripts/predict_study.py"


rule sum_blocks:
    input:
        steps=OF_MACHINE["step_blocks"],
        links="results/tables/links.parquet",
    output:
        tables=prediction_tables("sum_blocks"),
    log:
        "logs/sum_blocks.log",
    conda:
        "../../envs/hpcai.yaml"
    threads: ALL_CORES
    params:
        tolerance=TOLERANCE,
        seed=PREDICT.kernel_seed,
        library=library_of("workflow/scripts/sum_blocks.py"),
    script:
        "../scripts/sum_blocks.py"


rule predict_scales:
    input:
        scales="results/tables/scales.parquet",
        links="results/tables/links.parquet",
        contention="results/tables/contention.parquet",
        steps=OF_MACHINE["step_blocks"],
        records=RECORDS_TO_ANALYSE,
    output:
        tables=prediction_tables("predict_scales"),
    log:
        "logs/predict_scales.log",
    conda:
        "../../envs/hpcai.yaml"
    params:
        library=library_of("workflow/scripts/predict_scales.py"),
    script:
        "../scripts/predict_scales.py"


rule judge_steps:
    input:
        own="results/tables/own_steps.parquet",
        regressors=REGRESSORS,
        steps=reference_steps,
    output:
        tables=prediction_tables("judge_steps"),
    log:
        "logs/judge_steps.log",
    conda:
        "../../envs/hpcai.yaml"
    params:
        tolerance=TOLERANCE,
        library=library_of("workflow/scripts/judge_steps.py"),
    script:
        "../scripts/judge_steps.py"


rule summarise_predictions:
    input:
        tables=said_of_predictions,
    output:
        summary="results/prediction.json",
    log:
        "logs/summarise_predictions.log",
    conda:
        "../../envs/hpcai.yaml"
    params:
        library=library_of("workflow/scripts/summarise_predictions.py"),
    script:
        "../scripts/summarise_predictions.py"


use rule show_runs as show_published with:
    input:
        tables_of("published"),
    output:
        figures=figures_of("published"),
    log:
        "logs/show_published.log",


# Each as soon as its tables exist, so that interrupted work shows its progress. One rule per figure, because
# Snakemake does not fill wildcards into the name of a caption.
for _name, _figure in catalogue.FIGURES.items():
    if _figure.stage != "predict":
        continue

    rule:
        name:
            f"show_{_name}"
        input:
            expand("results/tables/{table}.parquet", table=_figure.tables),
        output:
            figures=[listed(f"results/figures/{_name}.svg", _figure)],
        log:
            f"logs/show_predictions/{_name}.log",
        conda:
            "../../envs/hpcai.yaml"
        params:
            library=PLOT_LIBRARY,
        script:
            "../scripts/show_stage.py"
