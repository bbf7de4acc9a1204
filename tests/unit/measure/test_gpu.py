"""Refusals of `hpcai gpu`, its continuation after failures, and the content of its tables."""

import math
from pathlib import Path

import pandas as pd
import pytest
from unit.refusals import refused

from hpcai.core.accelerators import Accelerator
from hpcai.core.checkout import source_root
from hpcai.core.disturbance import Disturbance
from hpcai.core.errors import ConfigError, LaunchError, MissingExtraError
from hpcai.machine.ceilings.sampling import CeilingReport, NotMeasured, Sample, report_of
from hpcai.machine.steps import engines
from hpcai.machine.steps.engines import NOT_BUILT, NOT_INSTALLED
from hpcai.machine.steps.measure import Case, TooLargeError
from hpcai.machine.steps.report import PROGRAM, Block, StepReport
from hpcai.measure import gpu
from hpcai.measure.gpu import (
    NO_GPU,
    NO_PROGRAM,
    NO_TF32,
    WHICH_GPU,
    Asked,
    measure_device,
    own_index,
    plan_of,
    require_device,
)
from hpcai.measure.gpu_tables import (
    ABOVE,
    ABOVE_ROOF,
    Energy,
    Measured,
    ceiling_rows,
    kernel_rows,
    say_steps,
    step_rows,
)
from hpcai.metrics.profiles.kernels import kernel_breakdown
from hpcai.report.own_pages import write_page_of_device

ROOT = source_root()
GPUS = (Accelerator("GPU-a", "one"), Accelerator("GPU-b", "two"))


def asked(folder: Path, device: str = "gpu", **changes: object) -> Asked:
    facts = {"device": device, "engine": "tensorflow", "tiny": False, "seconds": 1.0, "folder": folder}
    return Asked(**{**facts, **changes})


def step_report(batch: int = 16, step_s: float = 0.1, precision: str = "bf16") -> StepReport:
    blocks = tuple(Block(started_s=float(number), duration_s=10 * step_s, steps=10) for number in range(3))
    facts = {
        "engine": "tensorflow",
        "device": "one",
        "precision": precision,
        "batch": batch,
        "batch_place": "device",
        "parameters": 10,
    }
    return StepReport(**facts, flop_per_sample=1e12, first_step_s=9.0, blocks=blocks, traced_steps=5)


def ceilings(**rates: float) -> CeilingReport:
    rows = [("gemm", name, rate, "FLOP/s") for name, rate in rates.items() if name != "memory"]
    rows += [("memory", "", rates["memory"], "B/s")] if "memory" in rates else []
    common = {"backend": "tensorflow", "setting": "large", "threads": 1, "duration_s": 1.0}
    samples = [Sample(kind=k, precision=p, work=rate, unit=unit, **common) for k, p, rate, unit in rows for _ in (1, 2)]
    return report_of(samples, [NotMeasured(kind="gemm", precision="tf32", reason="too old")])


def measured(tmp_path: Path, precision: str = "bf16", benchmark: str = "cosmoflow", **facts: object) -> Measured:
    plan = plan_of(ROOT, asked(tmp_path, "cpu"), benchmark, precision)
    case = Case(plan, "tensorflow", precision, 16, 1.0, tmp_path / "case")
    return Measured(case, **{"report": step_report(precision=precision), **facts})


def test_without_a_gpu_nothing_starts(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(gpu, "find_accelerators", tuple)
    monkeypatch.setattr(gpu, "measure_ceilings", pytest.fail)
    with refused(ConfigError, NO_GPU):
        measure_device(asked(tmp_path / "raw"), print)
    assert not (tmp_path / "raw").exists()


def test_an_engine_that_is_not_there_is_named_before_anything_starts(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(engines, "JAX_ENGINE", "hpcai.training.no_such")
    with refused(LaunchError, NOT_BUILT, engine="jax", module="hpcai.training.no_such"):
        require_device(asked(tmp_path, "cpu", engine="jax"))
    monkeypatch.setattr(engines, "JAX_ENGINE", "hpcai.training.engine")
    monkeypatch.setattr(engines, "find_spec", lambda name: None if name == "jax" else name)
    with refused(MissingExtraError, NOT_INSTALLED, engine="jax", package="jax"):
        require_device(asked(tmp_path, "cpu", engine="jax"))


def test_samples_have_their_official_size(tmp_path) -> None:
    cosmoflow = plan_of(ROOT, asked(tmp_path, "cpu"), "cosmoflow", "tf32")
    assert (cosmoflow.benchmark.data.edge, cosmoflow.benchmark.data.channels) == (128, 4)
    assert (cosmoflow.point.precision, cosmoflow.point.variant) == ("tf32", "tf32")
    resnet = plan_of(ROOT, asked(tmp_path, "cpu"), "resnet50", "bf16")
    assert (resnet.benchmark.data.crop, resnet.point.precision, resnet.point.engine) == (224, "bf16", "tensorflow")


def test_steps_above_their_roof_show_that_the_traffic_is_wrong(tmp_path) -> None:
    roofs = ceiling_rows(ceilings(bf16=3.2e14, memory=1e12), "gpu", "one")
    (row,) = step_rows([measured(tmp_path, traffic_bytes=1e10)], roofs, "gpu", official=True).to_dict("records")
    assert row["traffic_reason"] == ABOVE_ROOF(ratio=1.6)
    assert all(math.isnan(row[name]) for name in ("intensity_flop_per_byte", "roof_flop_per_s", "roof_ratio"))
    assert row["rate_flop_per_s"] == pytest.approx(1.6e14)


PROGRAM_OF_A_STEP = """HloModule jit__train, is_scheduled=true

ENTRY %main (x: f32[100]) -> f32[100] {
  %x = f32[100] parameter(0)
  ROOT %y = f32[100] negate(%x)
}
"""


def test_traffic_is_that_of_the_program_that_was_timed(stubbed, monkeypatch, tmp_path) -> None:
    def time_case(case: Case) -> StepReport:
        (case.folder / PROGRAM).write_text(PROGRAM_OF_A_STEP)
        return step_report(case.batch, precision=case.precision)

    monkeypatch.setattr(gpu, "time_case", time_case)
    monkeypatch.setattr(gpu, "require_device", lambda _: ROOT)
    steps = measure_device(asked(tmp_path / "raw", engine="jax"), print)["gpu_steps"].set_index("benchmark")
    assert set(steps.loc["cosmoflow", "memory_bytes_per_sample"]) == {2 * 400 / 16}


def test_a_program_that_was_not_compiled_for_the_device_says_nothing_of_it(stubbed, tmp_path) -> None:
    steps = measure_device(asked(tmp_path / "raw"), print)["gpu_steps"]
    timed = steps[steps["status"] != "not measured"]
    assert set(timed["traffic_reason"]) == {NO_PROGRAM(engine="tensorflow")}
    assert timed["intensity_flop_per_byte"].isna().all()


@pytest.fixture
def stubbed(monkeypatch):
    """A device whose memory holds four samples, where ResNet-50 fails in bf16."""
    seen: list[tuple[str, int]] = []

    def time_case(case: Case) -> StepReport:
        seen.append((case.name, case.batch))
        if case.batch > 4:
            raise TooLargeError("out of memory")
        if case.name == "resnet50 bf16":
            raise LaunchError("the process died")
        return step_report(case.batch, precision=case.precision)

    def no_traffic(_: Case) -> object:
        raise LaunchError("not compiled")

    monkeypatch.setattr(gpu, "find_accelerators", lambda: GPUS)
    monkeypatch.setattr(gpu, "measure_ceilings", lambda *_: ceilings(fp32=1e13, bf16=1e14, memory=1e12))
    monkeypatch.setattr(gpu, "time_case", time_case)
    monkeypatch.setattr(gpu, "model_traffic", no_traffic)
    monkeypatch.setattr(gpu, "find_power_meters", lambda: ([], ["no meter"]))
    return seen


def test_a_batch_that_is_too_large_is_halved_and_failures_are_rows(stubbed, tmp_path) -> None:
    tables = measure_device(asked(tmp_path / "raw"), print)
    steps = tables["gpu_steps"].set_index(["benchmark", "precision"])
    assert [batch for name, batch in stubbed if name == "cosmoflow fp32"] == [16, 8, 4]
    assert steps.loc[("cosmoflow", "fp32"), "batch_samples"] == 4
    failed = steps.loc[("resnet50", "bf16")]
    assert (failed["status"], failed["reason"]) == ("not measured", "the process died")
    assert math.isnan(failed["rate_samples_per_s"])
    assert set(steps["power_reason"]) == {"no meter", ""}
    assert set(tables["gpu_kernels"]["category"]) == {""}
    assert tables["gpu_kernels"]["reason"].ne("").all()
    page = write_page_of_device(tables, tmp_path)
    assert "This is a processor" not in page.read_text()
    assert (tmp_path / "gpu/tables/gpu_steps.csv").exists()


def test_a_processor_has_no_tf32_and_its_page_says_what_it_is(stubbed, tmp_path) -> None:
    tables = measure_device(asked(tmp_path / "raw", "cpu", tiny=True), print)
    tf32 = tables["gpu_steps"][tables["gpu_steps"]["precision"] == "tf32"]
    assert set(tf32["reason"]) == {str(NO_TF32())}
    assert {name for name, _ in stubbed} >= {"cosmoflow_tiny fp32", "resnet50_tiny bf16"}
    assert tables["gpu_steps"]["goal_ratio"].isna().all()
    assert set(tables["gpu_steps"]["device_kind"]) == {"cpu"}
    assert "This is a processor" in write_page_of_device(tables, tmp_path).read_text()


def test_rates_shares_and_roofs(tmp_path) -> None:
    energy = Energy(2.0, 300.0, "nvml")
    roofs = ceiling_rows(ceilings(bf16=3.2e14, memory=1e12), "gpu", "one")
    found = [measured(tmp_path, energy=energy, traffic_bytes=5e9)]
    (row,) = step_rows(found, roofs, "gpu", official=True).to_dict("records")
    assert row["rate_samples_per_s"] == pytest.approx(160)
    assert row["rate_flop_per_s"] == pytest.approx(1.6e14)
    assert row["gemm_share_ratio"] == pytest.approx(0.5)
    assert (row["goal_ratio"], row["energy_per_sample_j"], row["method"]) == (0.5, 2.0, "measured")
    # 1e12 FLOP for 5e9 bytes: 200 FLOP/B x 1e12 B/s is below the products.
    assert row["roof_flop_per_s"] == pytest.approx(2e14)
    assert row["roof_ratio"] == pytest.approx(0.8)
    assert roofs.set_index("precision").loc["tf32", "reason"] == "too old"
    assert "50 %" in say_steps(pd.DataFrame([row]))


def test_what_cannot_be_is_said(tmp_path) -> None:
    roofs = ceiling_rows(ceilings(bf16=1e14), "gpu", "one")
    above, none = step_rows([measured(tmp_path), measured(tmp_path, "fp32")], roofs, "gpu", official=True).to_dict(
        "records"
    )
    assert ABOVE.find_in(above["reason"])
    assert math.isnan(above["roof_flop_per_s"])
    assert math.isnan(none["gemm_share_ratio"])
    assert "fp32" in none["reason"]


def test_a_disturbed_measurement_is_called_so(tmp_path) -> None:
    busy = (Disturbance(node="n1", cores=2, wall_s=10.0, others_s=8.0, steal_s=0.0),)
    roofs = ceiling_rows(ceilings(bf16=1e15), "gpu", "one")
    rows = step_rows([measured(tmp_path, disturbance=busy)], roofs, "gpu", official=True)
    assert list(rows["status"]) == ["disturbed"]


def test_kernels_of_a_device_by_category(tmp_path) -> None:
    kernels = [("cutlass_gemm_bf16", "kernel", 3.0), ("MemcpyH2D", "memcpy", 1.0)]
    common = {"device": "/device:GPU:0", "calls": 5}
    table = pd.DataFrame([{"name": name, "kind": kind, "total_s": time_s, **common} for name, kind, time_s in kernels])
    rows = kernel_rows([measured(tmp_path, kernels=kernel_breakdown(table))], "gpu")
    assert dict(zip(rows["category"], rows["share_ratio"], strict=True)) == {"GEMM": 0.75, "memcpy": 0.25}
    assert set(rows["traced_steps"]) == {5}


def test_power_is_that_of_the_accelerator_in_use(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(gpu, "find_accelerators", lambda: GPUS)
    environments = [{}, *({"CUDA_VISIBLE_DEVICES": name} for name in ("1", "GPU-b", "3"))]
    assert list(map(own_index, environments)) == [0, 1, 1, None]
    samples = [(time / 2, index, (index + 1) * 100_000) for time in range(20) for index in (0, 1)]
    lines = ["monotonic_s,index,power_mw", *(",".join(map(str, row)) for row in samples)]
    (tmp_path / "power_nvml.csv").write_text("\n".join(lines) + "\n")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    energy = gpu._energy(tmp_path, step_report(), "nvml")
    assert energy.mean_power_w == pytest.approx(200.0)
    # 3 s (from the start of the first block to the end of the last) at 200 W for 30 steps of 16 samples.
    assert energy.per_sample_j == pytest.approx(200.0 * 3 / 480)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    assert gpu._energy(tmp_path, step_report(), "nvml").reason == str(WHICH_GPU(listed=2))
