"""Plans and inputs of runs, profiles and weak-scaling groups, by the wildcards of their paths."""

import functools
from pathlib import Path
from types import SimpleNamespace

from snakemake.exceptions import WorkflowError

from hpcai.config.plan_file import write_plan
from hpcai.config.runs import runs_at_each_batch

if workflow.is_main_process:
    from hpcai.measure.publish import kept_plan


def data_workload(wildcards):
    """Workload of a dataset."""
    return DATASETS[wildcards.dataset].workload


def data_settings(wildcards):
    """Data settings of a dataset, as plain values."""
    return DATASETS[wildcards.dataset].data.model_dump(mode="json")


def pack_settings(wildcards):
    """Packing settings of a dataset, as plain values."""
    return DATASETS[wildcards.dataset].pack.model_dump(mode="json")


def run_id(wildcards):
    """Path of a run below its folder of runs."""
    return f"{wildcards.benchmark}/{wildcards.variant}/{wildcards.scale}/{wildcards.repetition}"


@functools.cache
def runs_of_blocks():
    """Runs whose steps are divided into blocks; made when asked for, because few jobs need any plan."""
    first = {run: PLANS[run] for run in PLANS if Path(run).name == "r1"}
    return [
        run
        for run in runs_at_each_batch(first)
        if first[run].point.benchmark in MEASURED
    ]


# Priorities among the ready jobs: data first, then the runs in rounds, then everything else (0).
DATA_FIRST = len(PLANS) + 1
PRIORITIES = {
    run: DATA_FIRST - number for number, run in enumerate(CAMPAIGN.rounds(), start=1)
}


def run_priority(wildcards):
    """Priority of a timed run: earlier rounds come first."""
    return PRIORITIES[run_id(wildcards)]


PLANS_BELOW = {
    "results/runs": PLANS,
    "results/weak": WEAK_PLANS,
    **{f"results/profiles/{kind}": own for kind, own in PROFILE_PLANS.items()},
}


def write_plans():
    """Write the plans of all jobs that will run, before the first of them starts.

    No job of their own: with ten thousand runs, these take as long as all others. Their parameter `settings` has the
    job repeated when its plan changes. With `--touch` no job runs.
    """
    if workflow.touch:
        return
    jobs = workflow.dag.needrun_jobs()
    asked = {plan for job in jobs for plan in as_list(job.params.get("plans"))}
    for below, plans in PLANS_BELOW.items():
        for file in sorted(
            Path(one) for one in asked if str(one).startswith(f"{below}/")
        ):
            plan = plans[str(file.parent.relative_to(below))]
            file.parent.mkdir(parents=True, exist_ok=True)
            write_plan(kept_plan(plan, file), file)


def as_list(values):
    """A parameter's values as a list: none, one, or several."""
    return [values] if isinstance(values, str) else list(values or ())


@functools.cache
def first_plan(below, point):
    """Plan of a point's first repetition, or first instance."""
    letter = "i" if below == "results/weak" else "r"
    return PLANS_BELOW[below][f"{point}/{letter}1"]


@functools.cache
def settings_of_point(below, point):
    """Digest of a point's first plan, from which those of its other repetitions and their seeds follow."""
    return first_plan(below, point).digest


def settings_with(below, run):
    """Digest of the settings of a run's point, with what the machine file declared when the run was measured."""
    point, then = str(Path(run).parent), DECLARED_THEN.get(Path(below, run))
    if then is None:
        return settings_of_point(below, point)
    return first_plan(below, point).with_declared(then).digest


def point_of(wildcards):
    """Path of a point below its folder of runs."""
    return f"{wildcards.benchmark}/{wildcards.variant}/{wildcards.scale}"


def settings_of_run(wildcards):
    """Digest of the settings of a timed run."""
    return settings_with("results/runs", run_id(wildcards))


def plan_of_profile(wildcards):
    """Plan of a profiled run."""
    return f"results/profiles/{wildcards.profile}/{run_id(wildcards)}/plan.json"


def settings_of_profile(wildcards):
    """Digest of the settings of a profiled run."""
    return settings_with(f"results/profiles/{wildcards.profile}", run_id(wildcards))


def plans_of_group(wildcards):
    """Plans of all instances of a weak-scaling group, by number."""
    group = point_of(wildcards)
    return [
        f"results/weak/{run_id}/plan.json"
        for run_id in WEAK_PLANS
        if str(Path(run_id).parent) == group
    ]


def settings_of_group(wildcards):
    """Digest of the settings of a weak-scaling group: all its instances are measured at the same time."""
    return settings_with("results/weak", f"{point_of(wildcards)}/i1")


def captures_of(profile):
    """Captures of one kind of profile."""
    return [
        file for file in CAPTURES if file.startswith(f"results/profiles/{profile}/")
    ]


def first_run(wildcards):
    """First run of a benchmark: the work of a sample is the same in all of its runs."""
    return next(run for run in PLANS if run.startswith(f"{wildcards.benchmark}/"))


def work_plan(wildcards):
    """Plan of a benchmark's first run."""
    return f"results/runs/{first_run(wildcards)}/plan.json"


def settings_of_work(wildcards):
    """Digest of that run's settings."""
    return settings_with("results/runs", first_run(wildcards))


def run_manifest(wildcards):
    """Manifest of a run's dataset."""
    wait_for_orphans()
    return f"data/{CAMPAIGN.benchmarks[wildcards.benchmark].data.dataset}/manifest.json"


def run_pack(wildcards):
    """Manifest of the packed dataset, if the benchmark stages."""
    benchmark = CAMPAIGN.benchmarks[wildcards.benchmark]
    packed = f"data/{benchmark.data.dataset}/packed/packed.json"
    return packed if benchmark.is_packed else []


def plans_of_blocks(_wildcards):
    """Plan of a run of each benchmark at each of its batches, whose steps are divided into blocks."""
    return [f"results/runs/{run}/plan.json" for run in runs_of_blocks()]


def settings_of_blocks(_wildcards):
    """Digests of the settings of these runs."""
    return [settings_with("results/runs", run) for run in runs_of_blocks()]


def manifests_of_blocks(_wildcards):
    """Manifests of their datasets, in the same order."""
    runs = [
        SimpleNamespace(benchmark=PLANS[run].point.benchmark)
        for run in runs_of_blocks()
    ]
    return [run_manifest(one) for one in runs]


def packs_of_blocks(_wildcards):
    """Manifests of the packed datasets, for those that stage."""
    return [pack for one in _measured_benchmarks() for pack in [run_pack(one)] if pack]


def _measured_benchmarks():
    """Stand-ins for wildcards, one per measured benchmark."""
    return [SimpleNamespace(benchmark=benchmark) for benchmark in MEASURED]


def records_to_analyse():
    """Records of the planned runs."""
    records = present_or_planned(RECORDS)
    if not records and not ROUNDS:
        raise WorkflowError(
            "measure: found false, but results/runs holds no record of this study; set it to true"
        )
    return records


def records_of_benchmark(wildcards):
    """Records of one benchmark."""
    return [
        record
        for record in RECORDS_TO_ANALYSE
        if record.startswith(f"results/runs/{wildcards.benchmark}/")
    ]


def acceptance_plan(_wildcards):
    """Plan of the short training of an acceptance, as plain values."""
    return CAMPAIGN.acceptance_plan().model_dump(mode="json")


def acceptance_manifest(_wildcards):
    """Manifest of its dataset."""
    return run_manifest(CAMPAIGN.acceptance_plan().point)


def acceptance_pack(_wildcards):
    """Manifest of its packed dataset, if the benchmark stages."""
    return run_pack(CAMPAIGN.acceptance_plan().point)
