# Reads:  tables of the timed runs, ceilings and links; the models of the benchmarks
# Writes: results/predict/{machine}/ (what is measured once per machine), tables and figures of the predictors
#
# Measured and modelled numbers never share a table without the column `method`.


MACHINE = CAMPAIGN.machine.name
PREDICT = CAMPAIGN.study.predict
PREDICT_LIBRARY = library_digest("predict", "metrics")
# Measured on this machine if the study says so; another study of the same machine finds it there.
OF_MACHINE = {
    what: present_or_planned([f"results/{file}" for file in files])
    for what, files in PREDICT.measured_files(MACHINE).items()
}
LAYERS = present_or_planned(
    [f"results/characterise/layers/{benchmark}.json" for benchmark in MEASURED]
)
PREDICTIONS = [
    *expand("results/figures/{figure}.svg", figure=PREDICTION_FIGURES),
    *[file for rule in PREDICTION_TABLES for file in prediction_tables(rule)],
    "results/prediction.json",
]
# What the texts of the report read; not every point of a curve.
SAID_OF_PREDICTIONS = [
    *["hpl_published", "hpl_validation", "training_networks"],
    *["prediction_findings", "kernel_accuracy", "step_accuracy", "predictions"],
    "prediction_accuracy",
]
# What the layers of a benchmark are made of.
LAYERS_LIBRARY = library_digest(
    *("characterise/layers.py", "characterise/layers_graph.py"),
    *("characterise/layers_trace.py", "characterise/work.py"),
    *("predict/training/layers.py", "training/batch_norm.py", "training/cosmoflow.py"),
    *("training/deepcam", "training/extreme_weather"),
    *("training/image_classification", "training/opencatalyst"),
)


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

    rule measure_blas_rates:
        output:
            report="results/predict/{machine}/blas_rates.json",
        log:
            "logs/measure_blas_rates/{machine}.log",
        conda:
            "../../envs/hpcai.yaml"
        envmodules:
            *CAMPAIGN.machine.modules,
        threads: ALL_CORES
        resources:
            **whole_nodes(1, MACHINE_LIMIT_S),
        params:
            tests=[test.model_dump() for test in PREDICT.hpl_tests],
        script:
            "../scripts/measure_blas_rates.py"

    rule run_hpl:
        output:
            report="results/predict/{machine}/hpl.json",
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
        script:
            "../scripts/run_hpl.py"


rule fit_kernels:
    input:
        times=OF_MACHINE["kernel_times"],
    output:
        regressors=f"results/predict/{MACHINE}/regressors.json",
        tables=prediction_tables("fit_kernels"),
    log:
        "logs/fit_kernels.log",
    conda:
        "../../envs/hpcai.yaml"
    threads: ALL_CORES
    params:
        seed=PREDICT.kernel_seed,
        library=library_digest("predict/kernels"),
    script:
        "../scripts/fit_kernels.py"


rule list_layers:
    input:
        plan=work_plan,
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
        library=LAYERS_LIBRARY,
    shell:
        """
        exec &>{log:q}
        python -m hpcai.characterise.layers \
            --plan {input.plan:q} \
            --manifest {input.manifest:q} \
            --output {output.layers:q}
        """


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
        library=PREDICT_LIBRARY,
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
        library=PREDICT_LIBRARY,
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
        regressors=f"results/predict/{MACHINE}/regressors.json",
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
        library=PREDICT_LIBRARY,
    script:
        "../scripts/predict_study.py"


rule judge_steps:
    input:
        own="results/tables/own_steps.parquet",
        regressors=f"results/predict/{MACHINE}/regressors.json",
        steps=OF_MACHINE["reference_steps"],
    output:
        tables=prediction_tables("judge_steps"),
    log:
        "logs/judge_steps.log",
    conda:
        "../../envs/hpcai.yaml"
    params:
        library=PREDICT_LIBRARY,
    script:
        "../scripts/judge_steps.py"


use rule summarise_scoring as summarise_predictions with:
    input:
        tables=expand("results/tables/{table}.parquet", table=SAID_OF_PREDICTIONS),
    output:
        summary="results/prediction.json",
    log:
        "logs/summarise_predictions.log",


rule plot_predictions:
    input:
        **{
            table: f"results/tables/{table}.parquet"
            for tables in PREDICTION_TABLES.values()
            for table in tables
        },
        scales="results/tables/scales.parquet",
    output:
        **prediction_figures(),
    log:
        "logs/plot_predictions.log",
    conda:
        "../../envs/hpcai.yaml"
    params:
        library=PLOT_LIBRARY,
    script:
        "../scripts/plot_figures.py"
