"""HPC-AI Bench as a Ramble application: put the folder `hpcai` into `applications/` of a repository of Ramble."""

from ramble.appkit import *  # noqa: F403  as all of Ramble's applications do

NUMBER = r"(?P<value>[0-9.e+-]+)"
LABELS = (
    r'\{[^}]*benchmark="(?P<benchmark>[^"]*)",variant="(?P<variant>[^"]*)"[^}]*scale="(?P<scale>[^"]*)",'
    r'repetition="(?P<repetition>[^"]*)"[^}]*\}'
)
MEASURES = {
    "time to train": ("time_to_train_seconds", "s"),
    "throughput": ("train_rate_samples_per_second", "samples/s"),
    "staging": ("staging_seconds", "s"),
    "wall": ("wall_seconds", "s"),
}


class Hpcai(ExecutableApplication):  # noqa: F405
    """One study of HPC-AI Bench. Its jobs are those of the workflow's own profile."""

    name = "hpcai"
    maintainers("hpcai")  # noqa: F405
    tags("machine-learning", "training", "benchmark")  # noqa: F405

    executable(  # noqa: F405
        "measure",
        "hpcai run measure --snakefile {snakefile} --configfile {study} --directory . {workflow_options}",
        use_mpi=False,
    )
    executable("export", "hpcai export openmetrics results --output hpcai.om", use_mpi=False)  # noqa: F405
    workload("study", executables=["measure", "export"])  # noqa: F405
    workload_variable("snakefile", default="Snakefile", description="Absolute path", workloads=["study"])  # noqa: F405
    workload_variable("study", default="config/study.yaml", description="Absolute path", workloads=["study"])  # noqa: F405
    workload_variable(  # noqa: F405
        "workflow_options", default="--cores all", description="Arguments of Snakemake", workloads=["study"]
    )

    log = "{experiment_run_dir}/hpcai.om"
    # Ramble gives a number to the last context that it saw: every line of a run names it again.
    figure_of_merit_context(  # noqa: F405
        "run", regex=rf"hpcai_run_\w+{LABELS}", output_format="{benchmark} {variant} {scale} repetition {repetition}"
    )
    for measure, (family, unit) in MEASURES.items():
        figure_of_merit(  # noqa: F405
            measure, log_file=log, fom_regex=rf"hpcai_run_{family}{LABELS} {NUMBER}", group_name="value", units=unit,
            contexts=["run"],
        )  # fmt: skip
    success_criteria("all runs are exported", mode="string", match=r"# EOF", file=log)  # noqa: F405
