"""Plans and facts that keep all rules, and ways to break one, for the tests of the rules."""

from typing import Any

from unit.record_factory import make_plan

from hpcai.config.runs import RunPlan
from hpcai.config.workloads import BENCHMARKS
from hpcai.rules.requirement import Requirement
from hpcai.rules.verdict import RunFacts

DATA: dict[str, dict[str, Any]] = {
    "image_classification": {"train_samples": 1_281_167, "validation_samples": 50_000},
    "extreme_weather": {
        "train_samples": 11_680,
        "validation_samples": 1_460,
        "height": 768,
        "width": 1152,
        "train_years": list(range(1979, 1987)),
        "validation_years": [1990],
    },
    "cosmoflow": {"train_samples": 524_288, "validation_samples": 65_536, "edge": 128},
    "deepcam": {"train_samples": 121_266, "validation_samples": 15_158},
    "opencatalyst": {"train_samples": 2_000_000, "validation_samples": 999_866},
}
TARGETS = {
    "image_classification": 0.763,
    "extreme_weather": 0.35,
    "cosmoflow": 0.124,
    "deepcam": 0.82,
    "opencatalyst": 0.036,
}
PARAMETERS = {
    "image_classification": 25_559_081,
    "extreme_weather": 41_408_424,
    "cosmoflow": 8_907_556,
    "deepcam": 56_454_720,
    "opencatalyst": 1_810_182,
}
EPOCHS = {"image_classification": 90, "extreme_weather": 50}


def official_plan(workload: str, **changes: Any) -> RunPlan:
    """Return a plan with the published settings: the defaults of model and recipe, the official data and target."""
    benchmark = BENCHMARKS[workload].model_validate(
        {
            "name": workload,
            "workload": workload,
            "title": "official",
            "data": {"dataset": workload, "source": "existing", "path": "/data", **DATA[workload]},
            "pack": {"codec": "none"},
            "target": {"value": TARGETS[workload], "official": True},
        }
    )
    mlperf = benchmark.suite == "mlperf_hpc"
    return make_plan(benchmark=benchmark, **{"seeds": "entropy", "time_staging": mlperf, **changes})


def official_facts(workload: str) -> RunFacts:
    """Return the facts of a run that keeps all rules."""
    return RunFacts(
        data_source="downloaded",
        page_cache="dropped",
        parameters=PARAMETERS[workload],
        init_s=100.0,
        outcome="converged",
        epochs=EPOCHS.get(workload, 12),
        quality=TARGETS[workload],
    )


def broken(path: str, value: object, plan: RunPlan, facts: RunFacts) -> tuple[RunPlan, RunFacts]:
    """Return plan and facts with another value where a path of the table points to."""
    first, _, rest = path.split(" + ", maxsplit=1)[0].partition(".")
    if first == "facts":
        return plan, facts.model_copy(update={rest: value})
    keys = rest.split(".") if first == "plan" else ["benchmark", first, *rest.split(".")]
    return _replaced(plan, keys, value), facts


def _replaced(model: Any, keys: list[str], value: object) -> Any:
    inner = _replaced(getattr(model, keys[0]), keys[1:], value) if len(keys) > 1 else value
    return model.model_copy(update={keys[0]: inner})


def forbidden_values(required: Requirement) -> list[object]:
    """Return values just outside the requirement; none where any value is allowed."""
    if required.free:
        return []
    if required.each is not None:
        return [[value] for value in forbidden_values(required.each)]
    if isinstance(required.equals, bool):
        return [not required.equals]
    if isinstance(required.equals, str) or required.one_of:
        return ["something_else"]
    if isinstance(required.equals, tuple):
        return [[*required.equals, 1], []]
    if required.equals is not None:
        return [required.equals * 2, required.equals - 1]
    limits = {"at_least": -0.001, "at_most": 0.001, "above": 0.0, "below": 0.0}
    return [getattr(required, key) + step for key, step in limits.items() if getattr(required, key) is not None]
