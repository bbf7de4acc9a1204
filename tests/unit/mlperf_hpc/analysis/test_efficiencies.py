import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.mlperf_hpc.analysis.published_text import mean_run_variation

from hpcai.mlperf_hpc.analysis.columns import EFFICIENCY_COLUMNS
from hpcai.mlperf_hpc.analysis.round_tables import efficiency, efficiency_table, speedup

POSITIVE = st.floats(1e-3, 1e6)


def result(label: str = "A", units: float = 64, rate: float = 640.0, **changes) -> dict:
    return {
        "origin": "v1",
        "org": "A",
        "label": label,
        "benchmark": "cosmoflow",
        "quality_target": 0.124,
        "train_samples": 524288,
        "units": units,
        "unit": "accelerator",
        "train_rate_samples_per_s": rate,
        "evaluation_rate_samples_per_s": 2 * rate,
        "run_s": 1e6 / rate,
        **changes,
    }


def table_of(*results: dict, families: dict[str, str] | None = None) -> pd.DataFrame:
    """The table of results with units of one model, except those whose labels are in `families`."""
    frame = pd.DataFrame(results).assign(submission=[one["label"] for one in results])
    systems = frame[["origin", "submission"]].assign(
        family=[(families or {}).get(label, "V100") for label in frame["label"]]
    )
    return efficiency_table(frame, systems)


def pairs(*results: dict) -> set[tuple[str, str]]:
    table = table_of(*results)
    return set(zip(table["base"], table["result"], strict=True))


@pytest.mark.parametrize("quantity", ["train", "evaluation", "time_to_solution"])
def test_result_against_itself_is_one(quantity) -> None:
    assert efficiency(result(), result(), quantity) == speedup(result(), result(), quantity) == 1


@given(POSITIVE, POSITIVE, POSITIVE)
def test_efficiencies_multiply(first, second, third) -> None:
    one, two, three = result(rate=first), result(units=128, rate=second), result(units=256, rate=third)
    chained = efficiency(one, two, "train") * efficiency(two, three, "train")
    assert chained == pytest.approx(efficiency(one, three, "train"))


def test_twice_the_units_and_half_as_much_again() -> None:
    base, more = result(), result("B", 128, 960.0)
    assert (speedup(base, more, "train"), efficiency(base, more, "train")) == (1.5, 0.75)


def test_baselines_are_the_smallest_of_the_organisation_and_of_all() -> None:
    small = result("small", 16, org="B")
    assert pairs(small, result("own", 64), result("big", 512)) == {
        ("small", "own"),
        ("own", "big"),
        ("small", "big"),
    }


def test_of_equally_small_ones_the_fastest_is_the_baseline() -> None:
    assert pairs(result("slow", 64, 10.0), result("fast", 64, 20.0), result("big", 512)) == {
        ("fast", "slow"),
        ("fast", "big"),
    }


@pytest.mark.parametrize(
    "changes",
    [
        {"origin": "v2"},
        {"benchmark": "deepcam"},
        {"quality_target": 0.3},
        {"train_samples": 262144},
        {"units": float("nan")},
        {"unit": "processor"},
        {"train_samples": float("nan")},
    ],
)
def test_only_like_is_compared_with_like(changes) -> None:
    assert pairs(result("one", 64), result("other", **{"units": 128, **changes})) == set()


def test_a_few_samples_less_are_the_same_data() -> None:
    assert pairs(result("one", 64, train_samples=121266), result("other", 128, train_samples=121216)) != set()


def test_table_has_its_columns_without_rows() -> None:
    assert tuple(table_of(result()).columns) == EFFICIENCY_COLUMNS


def test_variation_is_the_mean_over_submissions() -> None:
    assert mean_run_variation(pd.DataFrame({"run_variation_ratio": [0.1, 0.3]})) == pytest.approx(0.2)


def test_units_of_another_model_are_no_baseline() -> None:
    results = (result("a64fx", 16), result("small", 64), result("big", 512))
    table = table_of(*results, families={"a64fx": "A64FX"})
    assert set(zip(table["base"], table["result"], strict=True)) == {("small", "big")}
    frame = pd.DataFrame(results).assign(submission="x")
    nothing_known = pd.DataFrame(columns=["origin", "submission", "family"])
    assert efficiency_table(frame, nothing_known).empty
