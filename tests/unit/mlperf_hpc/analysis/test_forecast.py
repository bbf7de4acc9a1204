"""Forecasts of rounds recover known laws, never look ahead, refuse bad input, and are judged correctly."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from unit.mlperf_hpc.analysis.forecast_rounds import AGEING, SCALES, all_rounds, frames_of, sets_of, submission
from unit.mlperf_hpc.analysis.published import ARCHIVE, read_published

from hpcai.core.errors import ConfigError
from hpcai.mlperf_hpc.analysis.accelerators import find_accelerator, read_accelerators
from hpcai.mlperf_hpc.analysis.backtest import backtest, forecast_table, summarise_backtest
from hpcai.mlperf_hpc.analysis.curve_model import interval_of
from hpcai.mlperf_hpc.analysis.forecast import (
    EpochTimeForecast,
    Forecast,
    history_rows,
    look_back,
    read_target,
    references_before,
)
from hpcai.mlperf_hpc.analysis.prediction import TOO_FEW_POINTS, Configuration, Interval
from hpcai.mlperf_hpc.analysis.prediction_points import point_sets
from hpcai.mlperf_hpc.analysis.publication import PUBLISHED
from hpcai.mlperf_hpc.analysis.reference_epochs import read_reference_epochs
from hpcai.mlperf_hpc.analysis.round_model import AgeingPrior, Choice, fit_histories, fit_history, weigh_priors
from hpcai.mlperf_hpc.analysis.system_families import name_family, system_table
from hpcai.mlperf_hpc.rounds.reading import read_round

KNOWN, NEW = Configuration("OrgA100", "A100", 256, 256), Configuration("OrgH100", "H100", 512, 512)


@pytest.fixture(scope="module")
def forecast() -> Forecast:
    return look_back(sets_of(all_rounds()), read_target("v3.0")).forecast("cosmoflow")


def off_by(interval: Interval, truth: float) -> float:
    return float(np.exp(abs(np.log(interval.middle / truth))))


@pytest.mark.parametrize("wanted", [KNOWN, NEW])
def test_forecast_recovers_ageing_and_rates_it_was_not_told(forecast: Forecast, wanted: Configuration) -> None:
    """This includes an accelerator that no earlier round contains."""
    truth = submission("v3.0", wanted.family, wanted.units)
    found = forecast.predict(wanted)
    assert found.reason == ""
    assert off_by(found.epoch_s, truth["epoch_s"]) < 1.35
    assert found.run_s.low < truth["run_s"] < found.run_s.high


def test_later_is_faster_and_what_is_new_or_far_is_less_certain(forecast: Forecast) -> None:
    """A forecast of another round uses the same model for another date."""
    law = forecast.curves.epoch_time
    assert isinstance(law, EpochTimeForecast)
    year, far = (replace(law, target=read_target(name)) for name in ("2024-11", "2033-11"))

    def times(one: EpochTimeForecast, wanted: Configuration) -> tuple[float, float]:
        machine = forecast.points.machine_of(wanted.organisation, wanted.family)
        low, middle, high = interval_of(one.predict(wanted.units, wanted.batch_samples, wanted.family, machine).draw(1))
        return middle, high - low

    now, new = times(law, KNOWN), times(law, NEW)
    assert times(year, KNOWN)[0] - now[0] == pytest.approx(AGEING, abs=0.35)
    assert new[1] > now[1] + 0.2
    assert times(far, KNOWN)[1] > now[1] + 0.2


def test_the_round_itself_and_later_ones_are_never_seen() -> None:
    """A forecast is bit-identical whatever is published in its target round or later."""
    spoilt = [
        row | {name: row[name] * 37 for name in ("epoch_s", "run_s", "epochs", "evaluations")}
        if row["origin"] in {"v2.0", "v3.0"}
        else row
        for row in all_rounds()
    ]
    before, after = (backtest(*frames_of(rows), ["v2.0"])[0] for rows in (all_rounds(("v0.7", "v1.0", "v2.0")), spoilt))
    names = ["run_predicted_s", "run_low_s", "run_high_s", "epochs_predicted", "epoch_predicted_s"]
    assert before["inside"].all()
    pd.testing.assert_frame_equal(before[names], after[names], check_exact=True)
    assert not after["inside"].any()


def test_references_are_those_of_rules_before_the_round() -> None:
    assert references_before(read_target("v1.0")).empty
    for target, rules in (("v2.0", "1.0.0"), ("v3.0", "2.0.0"), ("2026-11", "3.0.0")):
        pd.testing.assert_frame_equal(references_before(read_target(target)), read_reference_epochs(rules))


def test_left_out_rounds_decide_how_software_ages() -> None:
    """The candidate without ageing wins where nothing ages, and the other one where software ages."""
    candidates = [AgeingPrior("linear", rate, 0.05) for rate in (0.0, -0.7)]
    still = [row | {"epoch_s": row["epoch_s"] * np.exp(-AGEING * place)}
             for place, name in enumerate(PUBLISHED) for row in all_rounds((name,))]  # fmt: skip
    assert weigh_priors(history_rows(sets_of(still)), candidates).best.rate == 0.0
    assert weigh_priors(history_rows(sets_of(all_rounds())), candidates).best.rate == -0.7
    alone = weigh_priors(history_rows(sets_of(all_rounds(("v1.0",)))), candidates)
    assert (alone.scores, alone.weights) == ((), [0.5, 0.5])


def test_times_of_a_round_count_together_because_they_share_effects() -> None:
    rows = history_rows(sets_of(all_rounds()))
    history = fit_history(rows[rows["round"] != "v3.0"], AgeingPrior())
    new = rows[rows["round"] == "v3.0"]
    fast = new.assign(log_s=new["log_s"] - 2.0)
    losses = [history.score(new) - history.score(fast)]
    losses += [sum(history.score(one.iloc[[place]]) for place in range(len(new))) for one in (new, fast)]
    together, apart = losses[0], losses[1] - losses[2]
    assert 0 < together < apart
    means, deviations = history.moments(new.iloc[[0]])
    densities = stats.norm.pdf(float(new["log_s"].iloc[0]), means[:, 0], deviations[:, 0])
    assert history.score(new.iloc[[0]]) == pytest.approx(float(np.log(history.weights @ densities)), abs=1e-3)


def test_weights_of_draws_add_up_and_repeat() -> None:
    rows = history_rows(sets_of(all_rounds(("v0.7", "v1.0"))))
    one, two = (fit_history(rows, AgeingPrior()) for _ in range(2))
    assert one.weights.sum() == pytest.approx(1)
    assert np.array_equal(one.weights, two.weights)


def test_work_of_a_sample_in_the_first_round_is_less() -> None:
    """Kernels of 2 instead of 3: the same time of a sample there is a longer time of the newer work."""
    rows = [submission(name, "V100", 128, train_samples=samples) | {"epoch_s": samples / 1e4}
            for name, samples in (("v0.7", 262144), ("v1.0", 524288))]  # fmt: skip
    logs = history_rows(sets_of(rows)).set_index("round")["log_s"]
    assert logs["v0.7"] - logs["v1.0"] == pytest.approx(3 * np.log(1.5))


@pytest.mark.parametrize("samples", [262_144, 524_288])
def test_an_epoch_is_as_long_as_the_work_of_its_own_edition(samples: int) -> None:
    """Where software does not age, a machine that submitted is forecast at the time that it had."""
    rows = [submission("v0.7", family, units, train_samples=samples) for family in ("P100", "V100") for units in SCALES]
    (points,), still = sets_of(rows), Choice([AgeingPrior("linear", 0.0, 1e-6)], (), [1.0])
    past = look_back([points], read_target("v1.0"))
    known = replace(past, choice=still, histories=fit_histories(past.rows, still)).forecast("cosmoflow")
    found = known.predict(Configuration("OrgV100", "V100", SCALES[-1], SCALES[-1]))
    assert off_by(found.epoch_s, submission("v0.7", "V100", SCALES[-1])["epoch_s"]) < 1.1


def test_a_family_without_declared_rates_is_known_by_its_own_submissions_alone() -> None:
    renamed = [row | {"system": row["system"].replace("A100", "X9")} for row in all_rounds(("v0.7", "v1.0", "v2.0"))]
    rows = history_rows(sets_of(renamed))
    history = fit_history(rows, AgeingPrior())
    known = rows[rows["family"] == "X9"].iloc[[0]].assign(row="new")
    unknown = known.assign(family="Y9", machine="new Y9")
    widths = [history.moments(one)[1].mean() for one in (known, unknown)]
    assert known["unknown"].tolist() == [1.0]
    assert widths[1] > 3 * widths[0]


def test_backtest_says_what_is_missed() -> None:
    cases, pasts = backtest(*frames_of(all_rounds()), ["v2.0", "v3.0"])
    summary = summarise_backtest(cases)
    assert [past.target.name for past in pasts] == ["v2.0", "v3.0"]
    assert summary["predicted"] == summary["submissions"] == 16
    assert summary["coverage_met"]
    assert summary["factor_met"]
    slow = [row | ({"run_s": 30 * row["run_s"]} if row["origin"] == "v3.0" else {}) for row in all_rounds()]
    missed = summarise_backtest(backtest(*frames_of(slow), ["v3.0"])[0])
    assert (missed["inside"], missed["coverage_met"], missed["factor_met"]) == (0, False, False)
    assert missed["median_error_factor"] > 15


def test_the_table_of_forecasts_has_every_round_but_the_first() -> None:
    results, systems = frames_of(all_rounds(("v0.7", "v1.0")))
    own = results.assign(origin="own study")
    table = forecast_table(pd.concat([results, own], ignore_index=True), systems)
    cases, _ = backtest(results, systems, ["v1.0"])
    assert set(table["round"]) == {"v1.0"}
    assert table["run_predicted_s"].tolist() == cases["run_predicted_s"].tolist()
    assert table["run_error_ratio"].tolist() == cases["error_ratio"].tolist()
    assert forecast_table(*frames_of(all_rounds(("v3.0",)))).empty


def test_a_benchmark_of_the_round_alone_is_refused_with_its_reason() -> None:
    rows = [*all_rounds(), submission("v3.0", "A100", 128, "openfold")]
    cases, _ = backtest(*frames_of(rows), ["v3.0"])
    refused = cases[cases["reason"] != ""]
    assert refused["benchmark"].tolist() == ["openfold"]
    assert refused["run_predicted_s"].isna().all()
    summary = summarise_backtest(cases)
    assert (summary["submissions"], summary["predicted"]) == (9, 8)


def test_staging_is_optional_from_v3_on() -> None:
    staged = {"staging_s": 500.0, "staging_std_s": 5.0, "staging_share_ratio": 0.5}
    sets = sets_of([row | staged | {"run_s": row["run_s"] + 500} for row in all_rounds(("v1.0", "v2.0"))])
    lows = [look_back(sets, replace(read_target("v3.0"), published=published)).forecast("cosmoflow").predict(KNOWN)
            .staging_s.low for published in ((2023, 10), PUBLISHED["v3.0"])]  # fmt: skip
    assert lows[0] > 0
    assert lows[1] == 0


@pytest.mark.parametrize("name", ["v2.0", "v3.0", "2024-11"])
def test_a_single_submission_is_no_basis_in_any_round(name: str) -> None:
    """From v3.0 on the curves hold each submission with and without staging, which does not make it two."""
    rows = [submission("v1.0", "A100", 256), *(row for row in all_rounds(("v1.0",)) if row["benchmark"] == "deepcam")]
    found = look_back(sets_of(rows), read_target(name)).forecast("cosmoflow").predict(KNOWN)
    told = TOO_FEW_POINTS.find_in(found.reason)
    assert told == {"points": "1", "needed": "2"}
    assert np.isnan(found.run_s.middle)


@pytest.mark.parametrize("text", ["v9", "2020-11", "2024-13", "later", ""])
def test_unknown_rounds_are_refused(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_target(text)
    assert (caught.value.code, caught.value.facts["found"]) == ("forecast.unknown_round", text)


def test_a_round_without_earlier_submissions_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        look_back(sets_of(all_rounds(("v2.0",))), read_target("v2.0"))
    assert caught.value.code == "forecast.no_earlier"
    with pytest.raises(ConfigError) as caught:
        look_back(sets_of(all_rounds(("v1.0",))), read_target("v2.0")).forecast("openfold")
    assert caught.value.facts["found"] == "cosmoflow, deepcam"


def test_a_source_whose_date_nobody_knows_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        look_back(sets_of([row | {"origin": "mine"} for row in all_rounds(("v1.0",))]), read_target("v2.0"))
    assert (caught.value.code, caught.value.facts["found"]) == ("forecast.no_date", "mine")


def test_accelerators_are_found_by_any_spelling() -> None:
    assert find_accelerator("NVIDIA H100-SXM5-80GB") == "H100"
    assert find_accelerator("mi300x") == "MI300X"
    with pytest.raises(ConfigError) as caught:
        find_accelerator("Z80")
    assert caught.value.code == "accelerators.unknown_accelerator"
    for name, accelerator in read_accelerators().items():
        assert name_family(name) == name
        assert accelerator.source
        assert accelerator.peak_flop_per_s > 1e12
        assert accelerator.memory_bytes_per_s > accelerator.link_bytes_per_s


@pytest.mark.parametrize("names", [("LBNL", "HPE+LBNL"), ("Fujitsu", "RIKEN", "Fujitsu+RIKEN"), ("TACC", "tacc")])
def test_one_machine_across_spellings_of_its_submitters(names: tuple[str, ...]) -> None:
    rows = [submission("v1.0", "A100", 128 * 2**place, org=name) for place, name in enumerate(names)]
    rows += [submission("v1.0", "V100", 128, org=names[0]), submission("v1.0", "A100", 64, org="Other")]
    (points,) = sets_of(rows)
    machines = points.submissions["machine"].tolist()
    assert len(set(machines[: len(names)])) == 1
    assert len(set(machines)) == 3
    assert {points.machine_of(name, "A100") for name in names} == {machines[0]}
    assert points.machine_of("Nobody", "A100") not in machines


def test_a_model_without_age_keeps_each_spelling_apart() -> None:
    rows = [submission("v1.0", "A100", 128, org="LBNL"), submission("v1.0", "A100", 256, org="HPE+LBNL")]
    (points,) = point_sets(*frames_of(rows), read_reference_epochs().iloc[:0])
    assert points.submissions["machine"].nunique() == 2
    assert points.machine_of("LBNL", "A100") != points.machine_of("HPE+LBNL", "A100")


def test_the_first_published_round_forecasts_the_next() -> None:
    """From 15 real submissions every machine gets a time, shorter for newer accelerators and later rounds."""
    results = read_published().results  # skips the test where the round is not there
    systems = system_table([read_round(ARCHIVE, name="v0.7")])
    sets = list(point_sets(results, systems, references_before(read_target("v1.0")), joined=True))
    past = {name: look_back(sets, read_target(name)).forecast("cosmoflow") for name in ("v1.0", "v3.0")}
    times = {
        name: past["v1.0"].predict(Configuration("New", name, 512, 512)).run_s for name in ("P100", "V100", "H100")
    }
    assert times["P100"].middle > times["V100"].middle > times["H100"].middle
    assert times["H100"].high / times["H100"].low > times["V100"].high / times["V100"].low
    later = past["v3.0"].predict(Configuration("Fujitsu", "V100", 512, 512)).epoch_s.middle
    assert later < past["v1.0"].predict(Configuration("Fujitsu", "V100", 512, 512)).epoch_s.middle
