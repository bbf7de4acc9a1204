import math
from dataclasses import replace

import pandas as pd
import pytest
from unit.mlperf_hpc.analysis.made_runs import (
    made_round,
    made_run,
    made_submission,
    made_system,
    span,
    timed_run,
)

from hpcai.catalogue.tables import definitions
from hpcai.metrics.scores.columns import REPEATED
from hpcai.mlperf_hpc.analysis.columns import RESULT_COLUMNS, RUN_COLUMNS
from hpcai.mlperf_hpc.analysis.result_quantities import MEANS_APART, NO_TIME, UNKNOWN_BENCHMARK
from hpcai.mlperf_hpc.analysis.system_families import system_table
from hpcai.mlperf_hpc.analysis.tables import NO_UNITS, OTHER_NODES, result_table, run_table
from hpcai.mlperf_hpc.analysis.targets import OWN_TARGET
from hpcai.mlperf_hpc.rounds.model import Score, Span

OFFICIAL = {"train_samples": 524288, "eval_samples": 65536, "global_batch_size": 64}
TIMES = (100, 110, 120, 130, 140, 150, 160, 170, 180, 190)


def official_runs(count: int = 10, **changes) -> list:
    return [timed_run(number + 1, TIMES[number], settings=OFFICIAL, **changes) for number in range(count)]


def results_of(*submissions, failing=()) -> pd.DataFrame:
    return result_table(run_table([made_round(*submissions, failing=failing)]))


def test_tables_have_their_columns_also_without_rows() -> None:
    runs = run_table([])
    assert tuple(runs.columns) == RUN_COLUMNS
    assert tuple(result_table(runs).columns) == RESULT_COLUMNS
    full = run_table([made_round(made_submission([made_run()]))])
    assert tuple(full.columns) == RUN_COLUMNS
    assert not full.isna().all()[["run_s", "train_s", "units", "quality_target", "complies"]].any()


def test_row_of_a_run() -> None:
    row = run_table([made_round(made_submission([made_run()]))]).iloc[0]
    assert (row["origin"], row["submission"], row["scaling"]) == ("v9.9", "ORG/machine", "strong")
    assert (row["nodes"], row["processors"], row["accelerators"], row["units"]) == (4, 8, 32, 32)
    assert (row["unit"], row["seed"], row["claim"]) == ("accelerator", "1", "success")
    assert (row["quality_metric"], row["quality_target"]) == ("eval_error", 0.124)
    assert (row["best_quality"], row["last_quality"]) == (0.12, 0.12)
    assert row["started_utc"] == "2023-11-14T22:13:20Z"


def test_machine_without_accelerators_counts_processors() -> None:
    system = made_system(accelerators_per_node=0)
    row = run_table([made_round(made_submission([made_run()], system=system))]).iloc[0]
    assert (row["accelerators"], row["units"], row["unit"]) == (0, 8, "processor")


@pytest.mark.parametrize(
    ("changes", "units", "lacking"),
    [
        ({"accelerators_per_node": None}, math.nan, "accelerators per node"),
        ({"accelerators_per_node": None, "accelerator": ""}, 8, ""),
        ({"accelerators_per_node": 0, "processors_per_node": None}, math.nan, "processors per node"),
        ({"nodes": None}, math.nan, "nodes"),
    ],
)
def test_processors_are_no_units_of_a_machine_whose_accelerators_are_not_counted(changes, units, lacking) -> None:
    run = made_run(settings={**OFFICIAL, "number_of_nodes": 4})
    row = run_table([made_round(made_submission([run], system=made_system(**changes)))]).iloc[0]
    assert row["units"] == pytest.approx(units, nan_ok=True)
    assert row["unit"] == ("processor" if units == 8 else "")
    told = NO_UNITS.find_in(row["reason"])
    assert (told["lacking"] if told else "") == lacking


def test_instances_whose_logs_count_no_accelerators_have_no_units_of_processors() -> None:
    run = made_run(settings={**OFFICIAL, "number_of_nodes": 2})
    for system, units in ((made_system(), math.nan), (made_system(accelerators_per_node=None, accelerator=""), 4)):
        row = run_table([made_round(made_submission([run], scaling="weak", system=system))]).iloc[0]
        assert (row["nodes"], row["processors"]) == (2, 4)
        assert row["units"] == pytest.approx(units, nan_ok=True)


def test_the_family_is_that_of_the_compute_units() -> None:
    systems = (made_system(), made_system(accelerators_per_node=0), made_system(accelerators_per_node=None))
    made = [made_submission([made_run()], system=one, system_name=f"m{place}") for place, one in enumerate(systems)]
    table = system_table([made_round(*made).round])
    assert table["family"].tolist() == ["A100", "EPYC", "A100"]
    assert table["accelerator"].tolist() == ["A100", "", "A100"]


def test_run_without_system_file_has_no_units_but_a_reason() -> None:
    row = run_table([made_round(made_submission([made_run()], system=None))]).iloc[0]
    assert math.isnan(row["units"])
    assert "no system file" in row["reason"]


def test_log_and_system_file_that_differ_are_named() -> None:
    run = made_run(settings={**OFFICIAL, "number_of_nodes": 9})
    row = run_table([made_round(made_submission([run]))]).iloc[0]
    assert row["nodes"] == 4
    assert OTHER_NODES(logged_nodes=9, nodes=4) in row["reason"]


@pytest.mark.parametrize("value", [math.nan, math.inf, -1, 0, 1e300, 0.5, True, "many"])
def test_senseless_settings_do_not_stop_the_analysis(value) -> None:
    keys = ("train_samples", "eval_samples", "global_batch_size", "number_of_nodes", "accelerators_per_node")
    run = made_run(settings=dict.fromkeys(keys, value))
    strong, weak = made_submission([run] * 5), made_submission([run], scaling="weak")
    assert len(result_table(run_table([made_round(strong, weak)]))) == 1


def test_start_beyond_all_calendars_is_blank() -> None:
    run = made_run(run=Span(1e300, 1e300 + 100))
    assert run_table([made_round(made_submission([run]))])["started_utc"].tolist() == [""]


def test_seeds_that_differ_are_counted() -> None:
    runs = [made_run(1, seeds=(5, 6)), made_run(2, seeds=()), made_run(3, seeds=(7, 7))]
    assert run_table([made_round(made_submission(runs))])["seed"].tolist() == ["2 seeds", "", "7"]


def test_weak_instances_are_runs_at_their_own_scale_and_no_results() -> None:
    run = made_run(settings={**OFFICIAL, "number_of_nodes": 2, "accelerators_per_node": 4})
    pruned = replace(run, source="pruned", number=2)
    weak = made_submission([run], scaling="weak", pruned=(pruned,))
    runs = run_table([made_round(weak)])
    assert runs["scaling"].tolist() == ["weak", "weak_pruned"]
    assert runs["units"].tolist() == [8, 8]
    assert runs["processors"].tolist() == [4, 4]
    assert not runs["kept_by_status"].any()
    assert result_table(runs).empty


def test_means_are_over_the_runs_between_fastest_and_slowest() -> None:
    row = results_of(made_submission(official_runs())).iloc[0]
    assert (row["runs"], row["kept"], row["good_by_status"], row["good_by_target"]) == (10, 8, 10, 10)
    assert row["run_s"] == pd.Series(TIMES[1:-1]).mean() == 145
    assert row["run_std_s"] == pytest.approx(pd.Series(TIMES[1:-1]).std())
    assert row["budget_unit_h"] == pytest.approx(145 / 3600 * 32)
    assert row["run_variation_ratio"] == pytest.approx(row["run_std_s"] / 145)
    assert row["samples_per_unit"] == 2
    assert row["staging_ratio"] == 0.5
    assert row["staging_share_model_ratio"] == 0.5 / 4.5
    assert row["staging_share_ratio"] == 10 / 145
    shares = [row[f"{part}_share_ratio"] for part in ("staging", "evaluation", "train", "extra")]
    assert sum(shares) == pytest.approx(1)


def test_score_is_the_olympic_mean_times_the_factor() -> None:
    row = results_of(made_submission(official_runs(), scaling_factor=1.1)).iloc[0]
    assert row["time_to_train_s"] == pytest.approx(145 * 1.1)
    assert row["scaling_factor"] == 1.1
    assert row["run_s"] == 145
    plain = results_of(made_submission(official_runs())).iloc[0]
    assert (plain["time_to_train_s"], plain["scaling_factor"]) == (145, 1.0)


def test_one_log_that_does_not_comply_is_the_slowest() -> None:
    runs = official_runs()
    row = results_of(made_submission(runs), failing=(runs[0].source,)).iloc[0]
    assert row["time_to_train_s"] == pd.Series(TIMES[2:]).mean()
    assert row["run_s"] == 145


@pytest.mark.parametrize(
    ("runs", "reason"),
    [
        (official_runs(9), "9 runs, the rules ask for 10"),
        ([*official_runs(), timed_run(11, 99, settings=OFFICIAL)], "11 runs, the rules ask for 10"),
        (
            [*official_runs(8), *(made_run(number, claim="aborted", settings=OFFICIAL) for number in (9, 10))],
            "2 of 10 runs do not comply or miss the target",
        ),
        ([timed_run(n, 99 + n) for n in range(1, 11)], "evaluated on 500 samples, the rules ask for 65536"),
    ],
)
def test_score_that_the_rules_do_not_give_is_no_number_and_says_why(runs, reason) -> None:
    row = results_of(made_submission(runs)).iloc[0]
    assert math.isnan(row["time_to_train_s"])
    assert NO_TIME(why=reason) in row["reason"]


def test_unknown_benchmark_has_times_but_no_score() -> None:
    row = results_of(made_submission(official_runs(), benchmark="no_such")).iloc[0]
    assert row["run_s"] == 145
    assert math.isnan(row["time_to_train_s"])
    assert UNKNOWN_BENCHMARK() in row["reason"]


@pytest.mark.parametrize(
    ("runs", "reason"),
    [
        (official_runs(2), "no means: 2 runs leave none"),
        ([*official_runs(3), made_run(4, claim="aborted"), made_run(5, run=None)], "no means: 2 of 5 runs claim no"),
    ],
)
def test_runs_that_leave_no_mean_leave_nothing_but_a_reason(runs, reason) -> None:
    row = results_of(made_submission(runs)).iloc[0]
    means = ["run_s", "run_std_s", "epochs", "train_share_ratio", "train_rate_samples_per_s", "budget_unit_h"]
    assert row[means].isna().all()
    assert row["kept"] == 0
    assert reason in row["reason"]


def test_rules_differ_where_a_success_misses_the_target() -> None:
    missed = made_run(1, run=span(0, 100), settings=OFFICIAL, scores=(Score(1, 0.0, 0.125, 1.0),))
    row = results_of(made_submission([missed, *official_runs()[1:]])).iloc[0]
    assert row["run_s"] == 145
    assert row["run_by_target_s"] == pd.Series(TIMES[2:]).mean()
    assert (row["good_by_status"], row["good_by_target"]) == (10, 9)


def test_mean_of_a_quantity_that_a_kept_run_lacks_is_none() -> None:
    runs = [*official_runs()[:5], *[replace(run, staging=None) for run in official_runs()[5:]]]
    row = results_of(made_submission(runs)).iloc[0]
    assert math.isnan(row["staging_s"])
    assert math.isnan(row["staging_share_ratio"])
    assert "no staging keys" in row["reason"]


def test_harmonic_and_arithmetic_means() -> None:
    quick = {"evaluations": tuple(span(28 + 20 * place, 30 + 20 * place) for place in range(4))}
    runs = [*official_runs()[:5], *[replace(run, **quick) for run in official_runs()[5:]]]
    row = results_of(made_submission(runs)).iloc[0]
    slow, fast = 4 * 65536 / 20, 4 * 65536 / 8
    assert row["evaluation_rate_samples_per_s"] == pytest.approx(2 / (1 / slow + 1 / fast))
    assert row["evaluation_rate_per_unit_samples_per_s"] == pytest.approx((slow + fast) / 2 / 32)


def test_settings_that_differ_between_runs_are_named() -> None:
    runs = [replace(run, settings={**OFFICIAL, "global_batch_size": 64 * run.number}) for run in official_runs()]
    row = results_of(made_submission(runs)).iloc[0]
    assert math.isnan(row["global_batch_samples"])
    assert "global_batch_samples differs between the runs: 64, 128" in row["reason"]


def test_own_target_is_a_column() -> None:
    run = made_run(settings={**OFFICIAL, OWN_TARGET: 0.3})
    assert run_table([made_round(made_submission([run]))])["quality_target"].tolist() == [0.3]


def test_runs_submitted_again_are_named() -> None:
    again = made_submission(official_runs(), origin="v10")
    results = results_of(made_submission(official_runs()), again)
    assert REPEATED not in results["reason"].iloc[0]
    assert results["reason"].iloc[1].startswith(f"{REPEATED} v9.9 ORG/machine")
    assert results["label"].tolist() == ["v9.9 ORG machine", "v10 ORG machine"]


def test_editions_are_told_apart_by_their_data() -> None:
    """One that leaves out a remainder is of the same data."""
    samples = {"a": 262144, "b": 524288, "c": 524288 - 100, "d": None}
    made = []
    for name, count in samples.items():
        runs = [replace(run, settings={**OFFICIAL, "train_samples": count}) for run in official_runs()]
        made.append(made_submission(runs, system_name=name))
    results = results_of(*made).set_index("system")
    assert results["edition"].to_dict() == {
        "a": "262144 samples", "b": "524288 samples", "c": "524288 samples", "d": "unknown samples"
    }  # fmt: skip


def test_an_edition_is_named_by_the_data_of_its_own_benchmark() -> None:
    deepcam = made_submission(official_runs(), benchmark="deepcam", system_name="other")
    few = [replace(run, settings={**OFFICIAL, "train_samples": 520000}) for run in official_runs()]
    results = results_of(made_submission(few), deepcam).set_index("benchmark")
    assert results["edition"].to_dict() == {
        "cosmoflow": "520000 samples",
        "deepcam": "524288 samples",
    }


def test_what_was_published_before_names_the_first() -> None:
    runs = official_runs()
    again = [replace(run, source=f"again_{run.number}") for run in runs]
    results = results_of(made_submission(runs), made_submission(again, system_name="renamed"))
    assert results["same_runs_as"].tolist() == ["", "v9.9 ORG/machine"]
    assert results["reason"].tolist()[1].startswith(f"{REPEATED} v9.9 ORG/machine")


KINDS = {
    "arithmetic mean": lambda values: values.mean(), "harmonic mean": lambda values: 1 / (1 / values).mean()
}  # fmt: skip
RATES = ("train_rate_samples_per_s", "evaluation_rate_samples_per_s", "epoch_rate_per_s")
PER_UNIT = {f"{name}_rate_per_unit_samples_per_s": f"{name}_rate_samples_per_s" for name in ("train", "evaluation")}


def test_each_mean_is_the_one_that_its_definition_names() -> None:
    """They are up to 2.2 times apart in a published round."""
    known = definitions()
    runs = []
    for number in range(10):
        long, ends_s = 20 + 15 * number, [10 + (20 + 15 * number) * place for place in range(1, 5)]
        epochs = tuple(span(end_s - long, end_s) for end_s in ends_s)
        evaluations = tuple(span(end_s - 2 - number, end_s) for end_s in ends_s)
        runs.append(timed_run(number + 1, 20 + 4 * long, settings=OFFICIAL, epochs=epochs, evaluations=evaluations))
    table = run_table([made_round(made_submission(runs))])
    kept, row = table[table["kept_by_status"]], result_table(table).iloc[0]
    for name, source in {**dict(zip(RATES, RATES, strict=True)), **PER_UNIT}.items():
        entry = known.find("mlperf_results", name)[1]
        kind = next(kind for kind in KINDS if kind in entry.title)
        assert kind in entry.definition
        units = 32 if name in PER_UNIT else 1
        assert row[name] == pytest.approx(KINDS[kind](kept[source]) / units)
        other = next(one for one in KINDS if one != kind)
        assert row[name] != pytest.approx(KINDS[other](kept[source]) / units, rel=0.01)
    for name in ("run_s", "epochs", "compute_s", "evaluations", "epoch_s", "staging_s"):
        entry = known.find("mlperf_results", name)[1]
        assert "rithmetic mean" in entry.definition
    said = [MEANS_APART.find_in(one) for one in row["reason"].split("; ")]
    assert {found["quantity"] for found in said if found} == {"train", "evaluation"}
