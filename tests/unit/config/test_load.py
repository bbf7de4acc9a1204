"""Every mistake in the configuration gives one line with file, dotted key, found value and allowed values."""

import re
import shutil
from contextlib import nullcontext
from pathlib import Path

import pytest
import yaml
from unit.refusals import refused, told, wrong_setting

from hpcai.catalogue.profiles import PROFILES
from hpcai.config.benchmark import NEEDS_PLAIN_SHARDS
from hpcai.config.load import (
    BATCH_TOO_LARGE,
    NO_FP16,
    NO_FP16_BY_JAX,
    NO_STUDY,
    NO_TF32,
    NOT_BY_JAX,
    OTHER_DATA,
    OTHER_ENGINE,
    POINT_TWICE,
    UNKNOWN_WORKLOAD,
    load_campaign,
    load_study_file,
)
from hpcai.config.reading import Problems, read_yaml
from hpcai.config.study import STAGING_ON_CLOCK, config_dir_setting, configuration_folder
from hpcai.config.workloads import BENCHMARKS
from hpcai.core.errors import ConfigError

ROOT = Path(__file__).parents[3]
STUDY, MACHINE, BENCHMARK = "study.yaml", "machines/laptop.yaml", "benchmarks/cosmoflow_tiny.yaml"


@pytest.fixture
def folder(tmp_path):
    copy = tmp_path / "config"
    shutil.copytree(ROOT / "config", copy)
    # Its weak-scaling group asks for a benchmark that tests leave out, and its profiles are of one variant.
    study = copy / STUDY
    lines = [line for line in study.read_text().splitlines() if not line.startswith(("weak_runs", "profile_variants"))]
    study.write_text("\n".join(lines) + "\n")
    return copy


def change(folder, file, dotted, value):
    path = folder / file
    data = yaml.safe_load(path.read_text())
    *parents, last = dotted.split(".")
    place = data
    for key in parents:
        place = place.setdefault(key, {})
    if value is REMOVED:
        del place[last]
    else:
        place[last] = value
    path.write_text(yaml.safe_dump(data))


REMOVED = object()

BAD_VALUES = [
    (STUDY, "name", "Tiny Study", r"name: found .*Tiny Study.*; allowed: .*pattern"),
    (STUDY, "name", "$(touch x)", r"name: found .*allowed: .*pattern"),
    (STUDY, "machine", "../etc/passwd", r"machine: found '../etc/passwd'; allowed: .*pattern"),
    (STUDY, "machine", "cray", r"cray.yaml: found no such file; allowed: one of cluster_cpu, cluster_gpu, laptop"),
    (STUDY, "benchmarks", [], r"benchmarks: found .*; allowed: .*at least 1"),
    (
        STUDY,
        "benchmarks",
        ["cosmoflow_tiny", "cosmoflow_tiny"],
        r"benchmarks: found \['cosmoflow_tiny', 'cosmoflow_tiny'\]; allowed: each name once",
    ),
    (STUDY, "published", "hpc_ai500_v2", r"published: found 'hpc_ai500_v2'; allowed: a list"),
    (STUDY, "profile_variants", ["fp23"], r"profile_variants.0: found 'fp23'; allowed: variants of the run table"),
    (STUDY, "published", ["nobody"], r"published/nobody.yaml: found no such file; allowed: one of hpc_ai500"),
    (STUDY, "compare_with", ["nowhere/results"], r"compare_with.0: found 'nowhere/results'; allowed: the results"),
    (
        STUDY,
        "rank_with",
        ["results"],
        r"rank_with.0: found 'results'; allowed: the results folder of a different study",
    ),
    (STUDY, "seed", 0, r"seed: found 0; allowed: greater than or equal to 1"),
    (STUDY, "seed", "7", r"seed: found '7'; allowed: a valid integer"),
    (STUDY, "seed", True, r"seed: found True; allowed: a valid integer"),
    (STUDY, "rule_set", "hpc_9.9.9", r"rule_set: found 'hpc_9.9.9'; allowed: 'hpc_1.0.0', 'hpc_2.0.0' or 'hpc_3.0.0'"),
    (STUDY, "rule_sett", "hpc_3.0.0", r"rule_sett: found an unknown key"),
    (STUDY, "limits.run_s", "soon", r"limits.run_s: found 'soon'; allowed: .*'30 min'"),
    (STUDY, "limits.run_s", "-3 s", r"limits.run_s: found .*; allowed: greater than 0"),
    (STUDY, "limits.run_s", "3 GB", r"limits.run_s: found .*3 GB.*; allowed: no quantity"),
    (STUDY, "submission.division", "half", r"submission.division: found 'half'; allowed: 'closed' or 'open'"),
    (STUDY, "submission.org", "", r"submission.org: found ''; allowed: .*at least 1"),
    (STUDY, "title", "two\nlines", r"title: found .*; allowed: a single line"),
    (MACHINE, "power", {"node_power_w": "0 W", "source": "meter"}, r"power.node_power_w: found .*; allowed: greater"),
    (MACHINE, "power", {"node_power_w": "3 J", "source": "meter"}, r"power.node_power_w: found .*3 J.*'250 W'"),
    (MACHINE, "power", {"node_power_w": "300 W"}, r"power.source: found .*; allowed: .*required"),
    (MACHINE, "nodes", 0, r"laptop.yaml: nodes: found 0"),
    (MACHINE, "cores_per_rank", 3, r"ranks_per_node x cores_per_rank = 6 is more than cores_per_node = 2"),
    (MACHINE, "memory_bytes", "24 GB/s", r"memory_bytes: found .*24 GB/s.*'24 GiB'"),
    (MACHINE, "device.kind", "tpu", r"device.kind: found 'tpu'; allowed: 'cpu' or 'gpu'"),
    (MACHINE, "device.kind", "gpu", r"'gpu' needs accelerators_per_node"),
    (MACHINE, "device.peaks", {"fp32": {"rate_flop_per_s": "1 TFLOP/s"}}, r"device.peaks.fp32.source: found nothing"),
    (MACHINE, "device.peaks", {"int3": {}}, r"device.peaks.int3"),
    (MACHINE, "storage.node_local", "/tmp/$(rm -rf x)", r"storage.node_local: found .*pattern"),
    (MACHINE, "storage", REMOVED, r"storage: found nothing; allowed: this key is required"),
    (MACHINE, "name", "other", r"name: found 'other'; allowed: the file's own name, 'laptop'"),
    (BENCHMARK, "workload", "resnet", r"workload: found 'resnet'"),
    (BENCHMARK, "data.edge", 33, r"data.edge: found 33; allowed: 16, 32, 64 or 128"),
    (BENCHMARK, "data.train_samples", -1, r"data.train_samples: found -1"),
    (BENCHMARK, "data.source", "existing", r"source 'existing' needs the key 'path'"),
    (BENCHMARK, "data.path", "/data/x", r"the key 'path' is only allowed for source 'existing'"),
    (BENCHMARK, "data.priors", {"omega_m": [0.5, 0.1]}, r"omega_m: two positive numbers"),
    (BENCHMARK, "pack.codec", "rar", r"pack.codec: found 'rar'"),
    (BENCHMARK, "pack", {"codec": "gzip", "level": 12}, r"gzip levels are 1 to 9"),
    (BENCHMARK, "model.conv_layers", 5, r"5 poolings halve an edge of 16 below 1"),
    (BENCHMARK, "model.dropout", 1.0, r"model.dropout: found 1.0; allowed: less than 1"),
    (BENCHMARK, "model.kernel", 5, r"model.kernel: found 5; allowed: 2 or 3"),
    (
        BENCHMARK,
        "recipe.decay_factors",
        [0.5, 0.25, 0.125],
        r"decay_factors must have the same length",
    ),
    (BENCHMARK, "recipe.optimizer", "adam", r"recipe.optimizer: found 'adam'; allowed: 'sgd'"),
    (BENCHMARK, "target.value", float("nan"), r"target.value: found nan"),
]


@pytest.mark.parametrize(("file", "key", "value", "message"), BAD_VALUES)
def test_bad_value(folder, file, key, value, message):
    change(folder, file, key, value)
    with pytest.raises(ConfigError, match=message) as caught:
        load_study_file(folder / STUDY)
    assert file.removeprefix("machines/").removeprefix("benchmarks/").removesuffix(".yaml") in str(caught.value) or (
        "cray" in str(caught.value)
    )


HEADER = "benchmark\tvariant\tnodes\tranks_per_node\trepeats\tprecision\tcompression\tglobal_batch"
BAD_ROWS = [
    ("cosmoflow_tiny\tfp32\t1\t3\t1\tfp32\tnone\t", r"line 2: ranks_per_node: found 3; allowed: at most 2"),
    ("cosmoflow_tiny\tfp32\t2\t1\t1\tfp32\tnone\t", r"line 2: nodes: found 2; allowed: at most 1"),
    ("cosmoflow_tiny\tfp32\t1\t2\t1\tfp32\tnone\t7", r"global_batch: found 7; allowed: a multiple of the 2 ranks"),
    ("cosmoflow_tiny\tfp32\t1\t1\t1\tfp32\tnone\t9999", r"global_batch: found 9999; allowed: a divisor of the"),
    ("cosmoflow_tiny\tfp32\t1\tone\t1\tfp32\tnone\t", r"ranks_per_node: found 'one'; allowed: a valid integer"),
    ("cosmoflow_tiny\tfp32\t1\t1\t0\tfp32\tnone\t", r"repeats: found 0"),
    ("cosmoflow_tiny\tfp32\t1\t1\t1\tfp8\tnone\t", r"precision: found 'fp8'"),
    ("cosmoflow_tiny\tfp;32\t1\t1\t1\tfp32\tnone\t", r"variant: found 'fp;32'; allowed: .*pattern"),
    ("deepcam\tfp32\t1\t1\t1\tfp32\tnone\t", r"benchmark: found 'deepcam'; allowed: one of the study"),
    ("cosmoflow_tiny\tfp32\t1\t1\t1\tfp32\tnone\t\tx", r"found 9 cells; allowed: at most 8"),
    ("cosmoflow_tiny\t\t1\t1\t1\tfp32\tnone\t", r"variant: found nothing; allowed: this key is required"),
]


@pytest.mark.parametrize(("row", "message"), BAD_ROWS)
def test_bad_row(folder, row, message):
    (folder / "runs/default.tsv").write_text(f"{HEADER}\n{row}\n")
    with pytest.raises(ConfigError, match=message):
        load_study_file(folder / STUDY)


OPTIONS = f"{HEADER}\taccumulation\tbatchnorm_group\tfusion_bytes\tcycle_time_s"
ROW = "cosmoflow_tiny\tfp32\t1\t2\t1\tfp32\tnone\t16"
BAD_OPTIONS = [
    ("3\t\t\t", r"global_batch: found 16; allowed: a multiple of the 2 ranks x 3 micro-batches"),
    ("\t3\t\t", r"batchnorm_group: found 3; allowed: a divisor of the 2 ranks"),
    ("0\t\t\t", r"accumulation: found 0"),
    ("\t\t64 Mhz\t", r"fusion_bytes: found '64 Mhz'; allowed: no quantity that can be converted to byte"),
    ("\t\t\t-1 ms", r"cycle_time_s: found '-1 ms'; allowed: greater than 0"),
]


@pytest.mark.parametrize(("cells", "message"), BAD_OPTIONS)
def test_bad_communication_options(folder, cells, message):
    (folder / "runs/default.tsv").write_text(f"{OPTIONS}\n{ROW}\t{cells}\n")
    with pytest.raises(ConfigError, match=message):
        load_study_file(folder / STUDY)


def test_communication_options_are_part_of_the_plan(folder):
    (folder / "runs/default.tsv").write_text(f"{OPTIONS}\n{ROW}\t2\t2\t64 MiB\t3.5 ms\n")
    (plan,) = load_study_file(folder / STUDY).plans().values()
    assert (plan.local_batch, plan.micro_batch) == (8, 4)
    assert (plan.point.fusion_bytes, plan.point.cycle_time_s, plan.point.batchnorm_group) == (2**26, 0.0035, 2)


def test_gradient_groups_are_for_messages_of_their_own(folder):
    header = f"{OPTIONS}\tgradient_groups"
    (folder / "runs/default.tsv").write_text(f"{header}\n{ROW}\t\t\t\t\t4\n")
    (plan,) = load_study_file(folder / STUDY).plans().values()
    assert plan.point.gradient_groups == 4
    assert plan.point.model_dump()["gradient_groups"] == 4
    assert "gradient_groups" not in plan.point.model_copy(update={"gradient_groups": 1}).model_dump()
    (folder / "runs/default.tsv").write_text(f"{header}\n{ROW}\t\t\t64 MiB\t\t4\n")
    with pytest.raises(ConfigError, match="gradient_groups: found 4; allowed: 1"):
        load_study_file(folder / STUDY)


def test_half_precision_is_for_accelerators(folder):
    (folder / "runs/default.tsv").write_text(f"{HEADER}\ncosmoflow_tiny\tfp16\t1\t1\t1\tfp16\tnone\t\n")
    with wrong_setting("precision", NO_FP16, found="'fp16'"):
        load_study_file(folder / STUDY)


REFUSED_WITH_AN_ENGINE = [
    ("extreme_weather_tiny", "fp32", "engine", OTHER_ENGINE, "'jax'"),
    ("opencatalyst_tiny", "fp32", "engine", OTHER_ENGINE, "'jax'"),
    ("cosmoflow_tiny", "tf32", "precision", NO_TF32, "'tf32'"),
]


@pytest.mark.parametrize(("benchmark", "precision", "column", "code", "found"), REFUSED_WITH_AN_ENGINE)
def test_an_engine_does_what_it_can(folder, benchmark, precision, column, code, found):
    change(folder, STUDY, "benchmarks", [benchmark])
    row = f"{benchmark}\tone\t1\t1\t1\t{precision}\tnone\t\tjax\n"
    (folder / "runs/default.tsv").write_text(f"{HEADER}\tengine\n{row}")
    with wrong_setting(column, code, found=found):
        load_study_file(folder / STUDY)


@pytest.mark.parametrize("engine", ["horovod", "tensorflow", "jax"])
@pytest.mark.parametrize(("kind", "code"), [("cpu", NO_TF32), ("gpu", None)])
def test_tf32_is_for_all_engines_on_accelerators(folder, engine, kind, code):
    change(folder, MACHINE, "device", {"kind": kind, "model": "a model"})
    change(folder, MACHINE, "accelerators_per_node", 2 if kind == "gpu" else 0)
    row = f"cosmoflow_tiny\tone\t1\t1\t1\ttf32\tnone\t\t{engine}\n"
    (folder / "runs/default.tsv").write_text(f"{HEADER}\tengine\n{row}")
    with wrong_setting("precision", code, found="'tf32'") if code else nullcontext():
        load_study_file(folder / STUDY)


def test_the_engine_jax_leaves_messages_to_xla(folder):
    row = "cosmoflow_tiny\tone\t1\t2\t1\tfp32\tnone\t\tjax\t2\n"
    (folder / "runs/default.tsv").write_text(f"{HEADER}\tengine\tgradient_groups\n{row}")
    with wrong_setting("gradient_groups", NOT_BY_JAX, found="2"):
        load_study_file(folder / STUDY)


@pytest.mark.parametrize("engine", ["horovod", "tensorflow", "jax"])
def test_ranks_share_samples_with_every_engine(folder, engine):
    change(folder, BENCHMARK, "model", {"conv_layers": 2})  # enough planes for two parts
    row = f"cosmoflow_tiny\tone\t1\t2\t1\tfp32\tnone\t\t{engine}\t2\n"
    (folder / "runs/default.tsv").write_text(f"{HEADER}\tengine\tspatial_parts\n{row}")
    (plan,) = load_study_file(folder / STUDY).plans().values()
    assert (plan.point.engine, plan.point.spatial_parts) == (engine, 2)


def test_the_engine_jax_has_no_loss_scaling(folder):
    change(folder, MACHINE, "device", {"kind": "gpu", "model": "a model"})
    change(folder, MACHINE, "accelerators_per_node", 2)
    (folder / "runs/default.tsv").write_text(f"{HEADER}\tengine\ncosmoflow_tiny\tone\t1\t1\t1\tfp16\tnone\t\tjax\n")
    with wrong_setting("precision", NO_FP16_BY_JAX, found="'fp16'"):
        load_study_file(folder / STUDY)


def test_what_does_not_fill_a_batch(folder):
    """CosmoFlow refuses a remainder, DeepCAM leaves it out of an epoch, OpenCatalyst fills it up."""
    sizes = {"deepcam_tiny": 0, "opencatalyst_tiny": 1}
    change(folder, STUDY, "benchmarks", list(sizes))
    for name in sizes:
        change(folder, f"benchmarks/{name}.yaml", "data.train_samples", 21)
        change(folder, f"benchmarks/{name}.yaml", "recipe.global_batch", 8)
    rows = "\n".join(f"{name}\tfp32\t1\t1\t1\tfp32\tnone\t" for name in sizes)
    (folder / "runs/default.tsv").write_text(f"{HEADER}\n{rows}\n")
    plans = load_study_file(folder / STUDY).plans().values()
    assert {plan.benchmark.name: plan.epoch_steps for plan in plans} == {"deepcam_tiny": 2, "opencatalyst_tiny": 3}
    change(folder, "benchmarks/deepcam_tiny.yaml", "recipe.global_batch", 22)
    with wrong_setting("global_batch", BATCH_TOO_LARGE, found="22", samples=21):
        load_study_file(folder / STUDY)


def test_staging_is_never_on_the_clock_of_hpc_ai500(folder):
    change(folder, STUDY, "benchmarks", ["extreme_weather_tiny", "deepcam_tiny"])
    rows = "\n".join(f"{name}_tiny\tfp32\t1\t1\t1\tfp32\tnone\t" for name in ("extreme_weather", "deepcam"))
    (folder / "runs/default.tsv").write_text(f"{HEADER}\n{rows}\n")
    plans = load_study_file(folder / STUDY).plans().values()
    assert {plan.benchmark.workload: plan.time_staging for plan in plans} == {"extreme_weather": False, "deepcam": True}


@pytest.mark.parametrize("workload", [["a"], None, 3])
def test_a_workload_that_is_no_name(folder, workload):
    change(folder, BENCHMARK, "workload", workload)
    with wrong_setting("workload", UNKNOWN_WORKLOAD, known=", ".join(BENCHMARKS)):
        load_study_file(folder / STUDY)


def test_containers_that_tensorflow_does_not_read_are_read_from_plain_shards(folder):
    change(folder, STUDY, "benchmarks", ["deepcam_tiny"])
    change(folder, "benchmarks/deepcam_tiny.yaml", "staging", {"place": "none"})
    change(folder, "benchmarks/deepcam_tiny.yaml", "pack", {"codec": "zstd"})
    with pytest.raises(ConfigError, match=NEEDS_PLAIN_SHARDS.pattern):
        load_study_file(folder / STUDY)


def test_same_point_twice(folder):
    row = "cosmoflow_tiny\tfp32\t1\t1\t1\tfp32\tnone\t"
    (folder / "runs/default.tsv").write_text(f"{HEADER}\n{row}\n{row}\n")
    with wrong_setting("line 3: variant", POINT_TWICE, line=2, raised="repeats"):
        load_study_file(folder / STUDY)


def test_unknown_column_and_empty_table(folder):
    table = folder / "runs/default.tsv"
    table.write_text(f"{HEADER}\tcolour\ncosmoflow_tiny\tfp32\t1\t1\t1\tfp32\tnone\t4\tred\n")
    with pytest.raises(ConfigError, match="colour: found an unknown key"):
        load_study_file(folder / STUDY)
    table.write_text(HEADER + "\n")
    with pytest.raises(ConfigError, match="at least one run"):
        load_study_file(folder / STUDY)
    table.unlink()
    with pytest.raises(ConfigError, match="no such file"):
        load_study_file(folder / STUDY)


@pytest.mark.parametrize("number", [0, 1])
def test_blanks_in_place_of_tabs_are_one_error_of_their_line(folder, number):
    table = folder / "runs/default.tsv"
    lines = [HEADER, "cosmoflow_tiny\tfp32\t1\t1\t1\tfp32\tnone\t4"]
    lines[number] = lines[number].replace("\t", " ")
    table.write_text("\n".join(lines) + "\n")
    with pytest.raises(ConfigError) as told_errors:
        load_study_file(folder / STUDY)
    _, *problems = told_errors.value.args[0].parts
    assert [str(one.facts["place"]) for one in problems] == [f"{table}: line {number + 1}"]


def test_a_study_that_is_not_there_is_told_errorsbefore_anything_is_read(tmp_path):
    with refused(ConfigError, NO_STUDY):
        load_study_file(tmp_path / "nowhere/study.yaml")


@pytest.mark.parametrize(("place", "named"), [("machines/nope.yaml", "laptop"), ("nowhere/nope.yaml", "no folder")])
def test_what_could_be_meant_instead_of_a_missing_file_is_named(folder, place, named):
    problems = Problems()
    (folder / "machines/.hidden.yaml").write_text("{}")
    assert read_yaml(folder / place, problems) is None
    (line,) = problems.lines
    allowed = str(line.facts["allowed"])
    assert named in allowed
    assert "hidden" not in allowed


def test_all_errors_at_once(folder):
    change(folder, STUDY, "seeds", "derived")
    change(folder, MACHINE, "nodes", 0)
    change(folder, BENCHMARK, "data.edge", 33)
    change(folder, BENCHMARK, "model.dropout", 2)
    with pytest.raises(ConfigError, match="3 errors") as caught:
        load_study_file(folder / STUDY)
    for key in ("laptop.yaml: nodes", "cosmoflow_tiny.yaml: data.edge", "cosmoflow_tiny.yaml: model.dropout"):
        assert key in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: [", "a YAML file"),
        ("name: a\nname: b\n", "'name' stands 2 times"),
        ("- a\n", "allowed: the keys of a study"),
        ("", "allowed: the keys of a study"),
        ("name: !!python/object/apply:os.system [ls]\n", "a YAML file"),
    ],
)
def test_no_yaml(folder, text, message):
    (folder / STUDY).write_text(text)
    with pytest.raises(ConfigError, match=message):
        load_study_file(folder / STUDY)


def test_shared_dataset_must_be_one(folder):
    change(folder, STUDY, "benchmarks", ["cosmoflow_tiny", "other"])
    data = yaml.safe_load((folder / BENCHMARK).read_text())
    data["name"] = "other"
    data["data"]["seed"] = 99
    (folder / "benchmarks/other.yaml").write_text(yaml.safe_dump(data))
    with wrong_setting("data.dataset", OTHER_DATA, found="'cosmoflow_tiny'"):
        load_study_file(folder / STUDY)


def test_staging_off_the_clock_only_since_v3(folder):
    change(folder, STUDY, "rule_set", "hpc_2.0.0")
    change(folder, STUDY, "time_staging", False)
    with pytest.raises(ConfigError) as caught:
        load_study_file(folder / STUDY)
    assert told(str(caught.value), STAGING_ON_CLOCK) == {"rule_set": "hpc_2.0.0"}


def test_all_files_of_the_project_are_valid(folder):
    benchmarks = [path.stem for path in (folder / "benchmarks").glob("*.yaml")]
    change(folder, STUDY, "benchmarks", benchmarks)
    assert set(load_study_file(folder / STUDY).benchmarks) == set(benchmarks)


def test_plans(folder):
    campaign = load_study_file(folder / STUDY)
    plans = campaign.plans()
    assert len(plans) == sum(row.repeats for row in campaign.rows)
    profiles = [plan for profile in PROFILES for plan in campaign.profiles(profile).values()]
    seeds = [plan.seed for plan in [*plans.values(), *profiles]]
    assert len(set(seeds)) == len(seeds)
    plan = plans["cosmoflow_tiny/fp32/n1x2/r1"]
    assert plan.local_batch * 2 == plan.global_batch


def test_each_kind_of_profile_has_one_run_for_each_variant(folder):
    campaign = load_study_file(folder / STUDY)
    ranks = {}
    for row in campaign.rows:
        ranks.setdefault((row.benchmark, row.variant), set()).add(row.ranks)
    assert set(map(frozenset, ranks.values())) == {frozenset({1, 2}), frozenset({2})}
    for profile in PROFILES:
        plans = campaign.profiles(profile)
        chosen = {(plan.point.benchmark, plan.point.variant): plan.point.ranks for plan in plans.values()}
        choose = min if profile == "counters" else max
        assert chosen == {variant: choose(own) for variant, own in ranks.items()}
        assert {(plan.kind, plan.profile) for plan in plans.values()} == {("profiled", profile)}
        steps = campaign.study.power_steps if profile == "power" else campaign.study.profile_steps
        assert {plan.max_steps for plan in plans.values()} == {steps}


def test_where_a_profiler_is_changes_only_what_it_looks_into(folder):
    before = load_study_file(folder / STUDY)
    change(folder, MACHINE, "profilers.darshan_library", "/opt/darshan/lib/libdarshan.so")
    after = load_study_file(folder / STUDY)
    assert {p.digest for p in before.plans().values()} == {p.digest for p in after.plans().values()}
    for profile in PROFILES:
        same = [p.digest for p in before.profiles(profile).values()] == [
            p.digest for p in after.profiles(profile).values()
        ]
        assert same == (profile != "io")


def test_digest_ignores_what_does_not_change_a_run(folder):
    before = load_study_file(folder / STUDY).plans()["cosmoflow_tiny/fp32/n1x1/r1"]
    change(folder, STUDY, "title", "another title")
    change(folder, STUDY, "limits.run_s", "7 min")
    change(folder, MACHINE, "title", "another title")
    change(folder, MACHINE, "power", {"node_power_w": "0.3 kW", "source": "meter, 2026-01-02"})
    change(folder, MACHINE, "software", {"modules": ["gcc/12.2.0"]})
    assert load_study_file(folder / STUDY).plans()["cosmoflow_tiny/fp32/n1x1/r1"].digest == before.digest
    change(folder, BENCHMARK, "recipe.base_learning_rate", 0.011)
    assert load_study_file(folder / STUDY).plans()["cosmoflow_tiny/fp32/n1x1/r1"].digest != before.digest


def test_seeds_from_entropy_are_left_to_the_run(folder):
    change(folder, STUDY, "seeds", "entropy")
    assert {plan.seed for plan in load_study_file(folder / STUDY).plans().values()} == {None}
    assert {plan.seeds for plan in load_study_file(folder / STUDY).plans().values()} == {"entropy"}


def test_config_dir_of_the_study_goes_first(folder, tmp_path):
    study = yaml.safe_load((folder / STUDY).read_text())
    study["config_dir"] = str(folder)
    assert load_campaign(study, tmp_path / "nowhere").machine.name == "laptop"


def test_variables_of_config_dir_are_replaced(folder, tmp_path, monkeypatch):
    study = yaml.safe_load((folder / STUDY).read_text())
    monkeypatch.setenv("MY_TABLES", str(folder.parent))
    study["config_dir"] = "${MY_TABLES}/" + folder.name
    assert load_campaign(study, tmp_path / "nowhere").machine.name == "laptop"
    assert configuration_folder(tmp_path / "study.yaml", study["config_dir"]) == folder


@pytest.mark.parametrize("name", ["a b", "größe", "a: b", "a #b", "[a] ~b", 'a "b"', "a's", "50%", "😀"])
def test_the_folder_of_the_tables_may_have_any_name(folder, tmp_path, name):
    from snakemake.cli import parse_config

    study = yaml.safe_load((folder / STUDY).read_text())
    shutil.copytree(folder, tmp_path / name)
    # As Snakemake hands it on to a Snakemake of its own.
    study |= parse_config([config_dir_setting(tmp_path / name)])
    assert study["config_dir"] == str(tmp_path / name)
    assert load_campaign(study, tmp_path / "nowhere").machine.name == "laptop"


@pytest.mark.parametrize("name", ["", "a\nb", "a" * 1001], ids=["none", "two lines", "long"])
def test_what_is_no_folder_of_tables_is_refused(folder, name):
    change(folder, STUDY, "config_dir", name)
    with pytest.raises(ConfigError, match="config_dir: found"):
        load_study_file(folder / STUDY)


@pytest.mark.parametrize("samples", [2**53, 16**5000 - 1], ids=["2^53", "5,000 digits in base 16"])
def test_counts_that_no_table_can_hold_are_refused(folder, samples):
    """A number of more than 4,300 digits cannot be printed, so that a check which names it ends in a traceback."""
    file = folder / "benchmarks/cosmoflow_tiny.yaml"
    text = re.sub(r"train_samples: \d+", f"train_samples: {samples:#x}", file.read_text())
    file.write_text(text)
    with pytest.raises(ConfigError, match="train_samples: found"):
        load_study_file(folder / STUDY)


@pytest.mark.parametrize("usual", [None, "horovod", "tensorflow"])
def test_rows_that_name_no_engine_have_that_of_the_study(folder, usual):
    change(folder, STUDY, "engine", usual)
    table = folder / "runs/default.tsv"
    lines = table.read_text().splitlines()
    header = next(number for number, line in enumerate(lines) if not line.startswith("#"))
    cells = [line.split("\t") for line in lines[header:]]
    named = ["engine", "tensorflow", "horovod", *[""] * (len(cells) - 3)]
    table.write_text("".join("\t".join([*row, one]) + "\n" for row, one in zip(cells, named, strict=True)))
    engines = [row.engine for row in load_study_file(folder / STUDY).rows]
    assert engines[:2] == ["tensorflow", "horovod"]
    assert set(engines[2:]) == {usual or "horovod"}


def test_the_usual_engine_of_a_study_stands_in_the_plan_as_a_row_has_it(folder):
    change(folder, STUDY, "engine", "horovod")
    named = load_study_file(folder / STUDY).plans()
    change(folder, STUDY, "engine", REMOVED)
    assert {run: plan.digest for run, plan in named.items()} == {
        run: plan.digest for run, plan in load_study_file(folder / STUDY).plans().items()
    }
