"""Files added to the code contain nothing about the machine, and enough to repeat the runs."""

import json

import pytest
import yaml
from unit.mlperf_hpc.submission.result_factory import INSTANCES, make_own_record, origin_of, write_group, write_runs
from unit.record_factory import make_machine, make_official_plan

from hpcai.config.benchmark import StagingSettings
from hpcai.config.load import load_study_file
from hpcai.mlperf_hpc.submission import precision
from hpcai.mlperf_hpc.submission.collect import collect
from hpcai.mlperf_hpc.submission.implementation_files import (
    benchmark_readme,
    implementation_files,
    portable_command,
    portable_plan,
    published_environment,
)
from hpcai.mlperf_hpc.submission.model import Request, Result, Submission, SubmittedRun, SubmittedSystem
from hpcai.mlperf_hpc.submission.system_file import system_fields


def submission_of(record, scaling="strong"):
    benchmark = {"cosmoflow": "cosmoflow", "deepcam": "deepcam", "opencatalyst": "oc20"}[record.plan.benchmark.workload]
    run = SubmittedRun(record, "runs/x", 1, None, None)
    result = Result(benchmark, scaling, (run,), (), 1, "1 of the 5 runs that the rules require")
    system = SubmittedSystem("box_n1x1_fp32", (result,), 1)
    return Submission("Org", "Org", "closed", "onprem", "3.0.0", (system,), ()), system, result


def test_of_the_environment_only_named_settings_without_folders_leave_the_machine():
    environment = {
        "OMP_NUM_THREADS": "4", "XLA_FLAGS": "--dump=/home/me", "NCCL_ALGO": "Ring", "SLURM_JWT": "secret",
        "HOROVOD_SECRET_KEY": "secret", "TMPDIR": "/scratch/me", "SLURM_NODELIST": "node[1-4]",
    }  # fmt: skip
    record = make_own_record("oc20", 1, record=origin_of("c", environment=environment))
    assert published_environment(record) == {"NCCL_ALGO": "Ring", "OMP_NUM_THREADS": "4"}


def test_a_command_is_shown_without_folders_and_hosts():
    command = ("/opt/env/bin/python", "-m", "hpcai.training.launch", "-H", "node0:1", "--manifest", "/data/p/m.json")
    command += ("--plan", "results/runs/x/plan.json", "--scratch", "/local/me/a1")
    shown = portable_command(make_own_record("oc20", 1, record=origin_of("c", command=command)))
    assert shown == (
        "python -m hpcai.training.launch -H HOST:1 --manifest FOLDER/m.json --plan results/runs/x/plan.json "
        "--scratch FOLDER/a1"
    )


def test_folders_of_a_plan_are_variables():
    record = make_own_record("oc20", 1)
    machine = make_machine(storage={"node_local": "/local/me"}, profilers={"darshan_library": "/opt/libdarshan.so"})
    plan = portable_plan(record.plan.model_copy(update={"machine": machine}))
    assert plan.machine.storage.node_local == "${SCRATCH_PATH}"
    assert plan.machine.profilers.darshan_library is None
    assert (record.plan.benchmark.data.path is None) == (plan.benchmark.data.path is None)
    kept = make_machine(storage={"node_local": "${TMPDIR}/x"})
    assert portable_plan(record.plan.model_copy(update={"machine": kept})).machine.storage.node_local == "${TMPDIR}/x"


def study_of(files, folder):
    """Return the study beside the scripts."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    study = yaml.safe_load((folder / "config/study.yaml").read_text())
    (folder / "config/study.yaml").write_text(yaml.safe_dump({**study, "config_dir": str(folder / "config")}))
    return load_study_file(folder / "config/study.yaml")


@pytest.mark.parametrize("benchmark", ["cosmoflow", "deepcam", "oc20"])
def test_the_study_beside_the_scripts_is_valid_and_names_the_same_point(benchmark, tmp_path):
    record = make_own_record(benchmark, 1, settings_of_point={"cycle_time_s": "5 ms", "fusion_bytes": "64 MiB"})
    (plan,) = study_of(implementation_files(*submission_of(record)), tmp_path).plans().values()
    assert plan.point == record.plan.point
    assert plan.benchmark == portable_plan(record.plan).benchmark


def test_of_more_runs_than_the_rules_count_the_study_names_those_submitted(tmp_path):
    # The third of five windows has the median score: each run is slower than the one before it.
    write_runs(tmp_path / "results", "oc20", numbers=range(1, 10), epochs={n: 25 + n for n in range(1, 10)})
    submission = collect(Request(tmp_path / "results", tmp_path / "out"))
    (system,) = submission.systems
    (result,) = system.results
    named = study_of(implementation_files(submission, system, result), tmp_path / "study").plans()
    submitted = {run.record.run_id for run in result.runs}
    assert {run_id.rpartition("/")[2] for run_id in submitted} == {"r3", "r4", "r5", "r6", "r7"}
    assert submitted <= set(named)
    assert len(named) == 7


def test_the_study_of_a_group_names_its_instances(tmp_path):
    write_group(tmp_path / "results")
    submission = collect(Request(tmp_path / "results", tmp_path / "out"))
    (system,) = submission.systems
    (result,) = system.results
    study = study_of(implementation_files(submission, system, result), tmp_path / "study")
    assert set(study.weak_plans()) == {run.record.run_id for run in (*result.runs, *result.pruned)}
    assert {plan.instances for plan in study.weak_plans().values()} == {INSTANCES}
    assert len(study.plans()) == 1  # every study has a timed run


GPUS = {"kind": "gpu", "model": "A100"}


@pytest.mark.parametrize(
    ("device", "point", "said"),
    [
        ({"kind": "cpu"}, {}, precision.WHOLE()),
        (GPUS, {}, precision.WHOLE()),
        (GPUS, {"engine": "jax"}, precision.WHOLE()),
        (GPUS, {"precision": "tf32"}, precision.IN_TF32()),
        (GPUS, {"engine": "tensorflow", "precision": "tf32"}, precision.IN_TF32()),
        (GPUS, {"engine": "jax", "precision": "tf32"}, precision.IN_TF32()),
        (GPUS, {"precision": "bf16"}, precision.MIXED(precision="bf16")),
    ],
)
def test_what_computed_is_said_as_the_plan_asks(device, point, said):
    machine = make_machine(device=device, **({"accelerators_per_node": 4} if device is GPUS else {}))
    record = make_own_record("oc20", 1, machine=machine, settings_of_point=point)
    submission, system, result = submission_of(record)
    files = implementation_files(submission, system, result)
    assert json.loads(files["box_n1x1_fp32_hpcai.json"])["Notes"] == said
    assert said in files["README.md"]
    assert said in system_fields(submission, system)["sw_notes"]


@pytest.mark.parametrize("benchmark", ["cosmoflow", "deepcam", "oc20"])
def test_the_readme_says_what_the_rules_want_to_know(benchmark):
    submission, _, result = submission_of(make_own_record(benchmark, 1))
    text = benchmark_readme(submission, result, "The code is that of commit `abc`.")
    for word in ("Preprocessing", "Initial weights", "Loss", "Optimizer", "Quality", "data order", "Seeds", "commit"):
        assert word in text
    assert "generated" not in text
    assert "{{" not in text


def test_weak_groups_are_repeated_as_a_group():
    text = implementation_files(*submission_of(make_own_record("deepcam", 1), "weak"))["run_and_time.sh"]
    assert "hpcai measure-weak" in text
    assert "for plan in" not in text


def readme_of(record) -> str:
    submission, _, result = submission_of(record)
    return benchmark_readme(submission, result, "The code is that of commit `abc`.")


def with_benchmark(record, **changes):
    """Return a record of another benchmark file."""
    plan = record.plan.model_copy(update={"benchmark": record.plan.benchmark.model_copy(update=changes)})
    return record.model_copy(update={"plan": plan})


def test_the_readme_of_an_open_cosmoflow_names_its_choices():
    closed = make_own_record("cosmoflow", 1)
    recipe = make_official_plan("cosmoflow_open").benchmark.recipe
    assert (recipe.augmentation, recipe.schedule, recipe.skip_gradient_norm) == ("symmetries", "linear", 10.0)
    marks = {"random_symmetry": True, "Nothing is augmented": False, "schedule: linear": True, "factors 0.25": False,
             "skip_gradient_norm": True}  # fmt: skip
    for record, is_open in ((closed, False), (with_benchmark(closed, recipe=recipe), True)):
        text = readme_of(record)
        assert {mark: (mark in text) == is_open for mark in marks} == marks


@pytest.mark.parametrize("benchmark", ["cosmoflow", "deepcam", "oc20"])
def test_the_readme_tells_whose_samples_a_node_draws(benchmark):
    whole = StagingSettings(partition="whole")
    for nodes, changes, split in ((1, {}, False), (2, {}, True), (2, {"staging": whole}, False)):
        record = make_own_record(benchmark, 1, nodes=nodes)
        assert record.plan.benchmark.staging.partition == "split"
        text = readme_of(with_benchmark(record, **changes))
        assert ("partition: split" in text, "used once an epoch" in text) == (split, True)


@pytest.mark.parametrize(
    ("engine", "named"),
    [
        ("horovod", "(TensorFlow, Keras, Horovod)"),
        ("tensorflow", "(TensorFlow, Keras)"),
        ("jax", "(JAX, Keras, TensorFlow)"),
    ],
)
def test_the_title_of_the_readme_names_the_engines_frameworks(engine, named):
    title = readme_of(make_own_record("cosmoflow", 1, settings_of_point={"engine": engine})).splitlines()[0]
    assert title.endswith(named)


@pytest.mark.parametrize(
    ("device", "software", "option"),
    [({"kind": "cpu"}, {}, ""), (GPUS, {}, " DEVICE=cuda"), (GPUS, {"container": "/images/hpcai.sif"}, "")],
)
def test_the_environment_of_gpus_is_set_up_with_cuda_unless_an_image_has_it(device, software, option):
    machine = make_machine(device=device, software=software, accelerators_per_node=4 if device is GPUS else 0)
    files = implementation_files(*submission_of(make_own_record("oc20", 1, machine=machine)))
    assert files["setup.sh"].splitlines()[-1].endswith(f" env{option}")
