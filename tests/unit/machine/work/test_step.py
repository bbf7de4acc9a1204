"""Work of a training step: the formula compared with XLA's compiled program, for all five benchmarks."""

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from unit.training.training_plans import make_plan, plan_of

from hpcai.config.runs import RunPlan
from hpcai.machine.work.step import WorkCount, WorkReport, count_work, main, workload_of_one_rank
from hpcai.records.files import read_part
from hpcai.training.work import LayerWork
from hpcai.training.workload import Streams
from hpcai.workloads.cosmoflow.pooled import PooledConv3D
from hpcai.workloads.cosmoflow.training import CosmoFlow
from hpcai.workloads.opencatalyst.training.work import NO_MEAN_SIZES

ROOT = Path(__file__).parents[4]
SHALLOW, DEEP = ("cosmoflow", "opencatalyst"), ("deepcam", "extreme_weather", "resnet50")
"""Benchmarks by the time that XLA takes for their small networks."""
GRAPHS = {
    f"{kind}_{what}": (value,)
    for what, *values in (("atoms", 10.7, 1.9, 13), ("edges", 118.4, 20.1, 150), ("triplets", 1301.5, 300.0, 1800))
    for kind, value in zip(("mean", "standard_deviation", "max"), values, strict=True)
}
"""Sizes of graphs, approximately those of the generated slabs."""
OFFICIAL_GRAPHS = {
    **{f"mean_{what}": (size,) for what, size in (("atoms", 73.0), ("edges", 3300.0), ("triplets", 150_000.0))},
    "standard_deviation_atoms": (30.0,),
    "standard_deviation_edges": (1400.0,),
    "max_atoms": (225.0,),
    "max_edges": (11_250.0,),
}

REMARKS = {
    "deepcam": "the traffic includes the dense gradients that XLA for processors makes of those of depthwise kernels",
    "extreme_weather": "8 loops of unknown trip count are counted once",
}
"""What the memory traffic omits or overestimates; the loops choose among overlapping boxes."""


SEEDS = Streams(weights=1, order=2, dropout=3)


def plan(name: str, **changes: Any) -> RunPlan:
    """Return the plan of a published benchmark file on one rank."""
    return plan_of(yaml.safe_load((ROOT / f"config/benchmarks/{name}.yaml").read_text()), **changes)


@cache
def small_report() -> WorkReport:
    """Return the work of one sample of a small network, counted before optimisation."""
    return count_work(make_plan(), samples=1, stage="hlo")


def by_method(report: WorkReport) -> dict[str, WorkCount]:
    return {count.method: count for count in report.counts}


@pytest.mark.parametrize("name", [*SHALLOW, *(pytest.param(name, marks=pytest.mark.slow) for name in DEEP)])
def test_formula_and_optimised_hlo_agree(name: str) -> None:
    """`end_to_end/test_five.py` has smaller networks of all five."""
    settings = plan(f"{name}_tiny")
    report = count_work(settings, GRAPHS)
    formula, sixfold, hlo = (by_method(report)[method] for method in ("formula", "formula_sixfold", "hlo"))
    assert report.hlo is not None
    assert hlo.ratio_to_formula == pytest.approx(1, abs=0.001)
    assert report.samples_per_step == settings.global_batch
    assert report.hlo.samples == min(8, settings.global_batch)
    assert formula.flop_per_step == pytest.approx(report.samples_per_step * formula.flop_per_sample)
    assert 1 < sixfold.ratio_to_formula < 1.3
    assert sum(layer.share_ratio for layer in report.layers) == pytest.approx(1)
    # Only graphs are padded, and only depthwise convolutions change in optimisation.
    assert (hlo.remark is not None) == (name == "opencatalyst")
    assert report.hlo.stage == ("hlo" if name == "deepcam" else "optimized_hlo")
    assert 0.5 < hlo.flop_per_sample / hlo.memory_bytes_per_sample < 200
    assert hlo.memory_bytes_per_sample * report.hlo.samples == pytest.approx(report.hlo.memory_bytes_per_batch)
    assert 0 < report.hlo.compulsory_bytes_per_batch < report.hlo.memory_bytes_per_batch
    assert report.hlo.memory_remark == REMARKS.get(name)
    if name == "opencatalyst":
        assert hlo.flop_per_sample > 1.1 * formula.flop_per_sample
    else:
        assert hlo.flop_per_step == pytest.approx(formula.flop_per_step, rel=0.001)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "model", "forward_gmac"),
    [
        ("cosmoflow", {}, 34.43),
        ("cosmoflow", {"kernel": 2}, 10.20),
        ("deepcam", {}, 327.7),
        ("extreme_weather", {}, 182.0),
        ("opencatalyst", {}, None),
        ("resnet50", {}, 4.089),
    ],
    ids=["cosmoflow", "cosmoflow of v0.7", "deepcam", "extreme_weather", "opencatalyst", "resnet50"],
)
@pytest.mark.parametrize("stage", ["hlo", "optimized_hlo"])
def test_both_agree_at_official_size_and_with_published_counts(
    name: str, model: dict[str, Any], forward_gmac: float | None, stage: Any
) -> None:
    """The forward counts were derived from the references' sources; DimeNet++'s depends on the data."""
    report = count_work(plan(name, model=model), OFFICIAL_GRAPHS, samples=1, stage=stage)
    counts = by_method(report)
    assert counts["hlo"].ratio_to_formula == pytest.approx(1, abs=0.001)
    if forward_gmac:
        assert report.forward_mac_per_sample / 1e9 == pytest.approx(forward_gmac, rel=5e-4)
        assert counts["hlo"].flop_per_sample == pytest.approx(counts["formula"].flop_per_sample, rel=0.001)
        assert counts["formula_sixfold"].flop_per_sample == pytest.approx(6e9 * forward_gmac, rel=5e-4)


def test_work_is_proportional_to_the_batch_and_the_same_in_half_precision() -> None:
    """Also with several ranks and gradient accumulation: the single-rank plan is compiled, without an exchange."""
    changed = make_plan(2, point={"precision": "bf16", "global_batch": 24, "accumulation": 2})
    single, several = small_report(), count_work(changed, stage="hlo")
    assert (single.hlo.samples, several.hlo.samples, several.hlo.precision) == (1, 6, "bf16")
    assert by_method(single)["hlo"].flop_per_sample == by_method(several)["hlo"].flop_per_sample
    assert by_method(several)["hlo"].flop_per_step == 24 * by_method(single)["formula"].flop_per_sample


def test_work_is_that_of_the_network_where_xla_computes_it_with_more_products() -> None:
    asked = plan("cosmoflow_tiny", point={"precision": "bf16", "engine": "jax"})
    device = asked.machine.device.model_copy(update={"kind": "gpu"})
    on_gpu = asked.model_copy(update={"machine": asked.machine.model_copy(update={"device": device})})
    assert isinstance(workload_of_one_rank(on_gpu, engine="jax").build_model(SEEDS).layers[2], PooledConv3D)
    assert by_method(count_work(on_gpu))["hlo"].ratio_to_formula == pytest.approx(1, abs=0.001)


def test_memory_traffic_is_modelled_after_optimisation_alone() -> None:
    report = small_report()
    assert by_method(report)["hlo"].memory_bytes_per_sample is None
    assert report.hlo.memory_bytes_per_batch is None
    assert "before optimisation" in report.hlo.memory_remark


def test_samples_of_a_larger_batch_move_less_each() -> None:
    """They share the weights and their gradients, and nothing else."""
    few, many = (count_work(make_plan(), samples=samples) for samples in (2, 8))
    one_of_few, one_of_many = (by_method(report)["hlo"].memory_bytes_per_sample for report in (few, many))
    assert one_of_many < one_of_few < 4 * one_of_many
    growth = many.hlo.compulsory_bytes_per_batch - few.hlo.compulsory_bytes_per_batch
    assert 0 < growth < many.hlo.memory_bytes_per_batch - few.hlo.memory_bytes_per_batch


def test_a_report_without_memory_traffic_still_reads() -> None:
    report = json.loads(small_report().model_dump_json())
    for name in ("memory_bytes_per_batch", "compulsory_bytes_per_batch", "memory_remark"):
        del report["hlo"][name]
    for count in report["counts"]:
        del count["memory_bytes_per_sample"]
    assert WorkReport.model_validate(report).hlo.memory_remark is None


def test_a_layer_that_the_formula_forgets_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    layers = CosmoFlow(make_plan()).layers()
    monkeypatch.setattr(CosmoFlow, "layers", lambda self: layers[:1] + layers[2:])
    hlo = by_method(count_work(make_plan(), stage="hlo"))["hlo"]
    assert hlo.ratio_to_formula > 1.1


def test_the_input_gradient_of_the_first_layer_is_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    first, *others = CosmoFlow(make_plan()).layers()
    monkeypatch.setattr(CosmoFlow, "layers", lambda self: (LayerWork(first.name, first.forward_mac), *others))
    assert by_method(count_work(make_plan(), stage="hlo"))["hlo"].ratio_to_formula < 0.9


def test_an_operation_without_a_kernel_is_a_reason_and_the_formula_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    import tensorflow as tf

    loss = CosmoFlow.loss

    def with_python(self: CosmoFlow, *arguments: Any) -> tf.Tensor:
        return tf.py_function(lambda value: value, [loss(self, *arguments)], tf.float32)

    monkeypatch.setattr(CosmoFlow, "loss", with_python)
    counts = by_method(count_work(make_plan()))
    assert counts["hlo"].flop_per_sample is None
    assert counts["hlo"].reason.startswith("not counted: ")
    assert "EagerPyFunc" in counts["hlo"].reason
    assert counts["formula"].flop_per_sample > 0


def test_graphs_of_unknown_size_are_not_counted() -> None:
    report = count_work(plan("opencatalyst_tiny"))
    assert len(report.counts) == 3
    for count in report.counts:
        assert count.flop_per_sample is None
        assert NO_MEAN_SIZES.find_in(count.reason)


def test_command_line_writes_the_report_and_the_text_it_stands_on(tmp_path: Path) -> None:
    settings, output = tmp_path / "plan.json", tmp_path / "work.json"
    settings.write_text(make_plan().model_dump_json())
    command = [sys.executable, "-m", "hpcai.machine.work.step", "--plan", str(settings), "--output", str(output)]
    subprocess.run([*command, "--keep", str(tmp_path / "hlo"), "--samples", "2"], check=True, capture_output=True)
    report = read_part(WorkReport, output)
    assert (report.benchmark, report.variant, report.hlo.samples) == ("cosmoflow_test", "test", 2)
    assert {path.name for path in (tmp_path / "hlo").iterdir()} == {"hlo.txt", "optimized_hlo.txt"}
    assert "mean" in report.assumed


def test_sizes_of_graphs_come_from_the_manifest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings, manifest = tmp_path / "plan.json", tmp_path / "manifest.json"
    settings.write_text(plan("opencatalyst_tiny").model_dump_json())
    header = {"dataset": "slabs", "workload": "opencatalyst", "source": "generated", "edition": "plain"}
    statistics = {name: list(values) for name, values in GRAPHS.items()}
    manifest.write_text(json.dumps({**header, "sample_shape": [], "statistics": statistics, "splits": {}}))
    main(["--plan", str(settings), "--manifest", str(manifest), "--stage", "hlo"])
    report = WorkReport.model_validate_json(capsys.readouterr().out)
    assert report.layers[0].forward_mac == round(118.4 * 4 * 32)
    assert "mean_atoms" not in report.assumed
    assert by_method(report)["hlo"].ratio_to_formula == pytest.approx(1, abs=0.001)
