"""``hpcai predict round`` for future rounds: its output, files and figures, and the questions it refuses."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer import TyperException
from unit.mlperf_hpc.analysis.forecast_rounds import all_rounds, frames_of, submission

from hpcai.cli.main import call
from hpcai.core.errors import ConfigError
from hpcai.mlperf_hpc.analysis import forecast_text
from hpcai.mlperf_hpc.analysis.forecast_text import ENERGY_NOT_KNOWN, ERROR_NOT_KNOWN, J_PER_KWH
from hpcai.plots.rounds.forecast import plot_forecasts

ASK = ("predict", "round", "SOURCE", "--benchmark", "cosmoflow")
ON_V100 = ("--system", "OrgV100/V100_512_v1.0")


@pytest.fixture(autouse=True)
def _made_up_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading trees of logs is tested with ``hpcai mlperf predict``. These tables replace three read rounds."""
    tables = frames_of([row for row in all_rounds(("v1.0", "v2.0", "v3.0")) if row["benchmark"] == "cosmoflow"])
    monkeypatch.setattr(forecast_text, "read_tables", lambda sources: tables)


def ask(tmp_path: Path, *words: object) -> dict[str, Any]:
    file = tmp_path / "answer.json"
    assert call([*ASK, *map(str, words), "--json", str(file)]) == 0
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def test_a_machine_in_a_later_round(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    figure = tmp_path / "forecast.svg"
    found = ask(tmp_path, *ON_V100, "--round", "v3.0", "--units", 256, "--figure", figure)
    (row,) = found["predictions"]
    truth = submission("v3.0", "V100", 256)["run_s"]
    assert (row["round"], row["method"], row["units"]) == ("v3.0", "modelled", 256)
    assert row["run_low_s"] < truth < row["run_high_s"]
    assert row["energy_j"] is None
    assert sum(one["weight"] for one in found["ageing"]) == pytest.approx(1)
    # v2.0 could be predicted from v1.0; v3.0 itself is no test of its own forecast.
    assert found["backtest"]["submissions"] == 4
    said = capsys.readouterr().out
    assert "OrgV100 V100 in round v3.0, 256 units" in said
    assert ENERGY_NOT_KNOWN() in said
    assert "<svg" in figure.read_text()


def test_a_table_of_scales(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = ask(tmp_path, *ON_V100, "--round", "2024-11")
    assert [row["units"] for row in found["predictions"]] == [32, 64, 128, 256, 512, 1024, 2048]
    assert found["backtest"]["predicted"] == 8
    assert capsys.readouterr().out.count("interval of 90 %") == 3


def test_the_first_round_tells_no_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = ask(tmp_path, *ON_V100, "--round", "v2.0", "--units", 256)
    assert found["backtest"] is None
    assert ERROR_NOT_KNOWN(target="v2.0") in capsys.readouterr().out


def test_which_machine_reaches_a_time_with_how_many_units_and_how_much_energy(tmp_path: Path) -> None:
    found = ask(tmp_path, "--round", "2024-11", "--within", "25 min", "--unit-power", "500 W")
    reached = {row["machine"]: row for row in found["reached"]}
    assert {"OrgV100 V100", "OrgA100 A100", "OrgH100 H100", "B200", "Xeon Phi 7250"} <= reached.keys()
    times = {(row["machine"], row["units"]): row for row in found["predictions"]}
    for machine, row in reached.items():
        own = sorted(units for name, units in times if name == machine)
        enough = [units for units in own if times[machine, units]["run_s"] <= 1500]
        surely = [units for units in own if times[machine, units]["run_high_s"] <= 1500]
        assert row["units"] == min(enough, default=None)
        assert row["units_for_upper_bound"] == min(surely, default=None)
        assert row["fewer_may_do"] == (row["units"] == min(own))
        if enough:
            assert row["energy_j"] == pytest.approx(500 * row["units"] * row["run_s"])
    assert reached["OrgH100 H100"]["units"] < reached["OrgV100 V100"]["units"]
    assert reached["Xeon Phi 7250"]["units"] is None
    assert reached["Xeon Phi 7250"]["fastest_s"] > 1500


def test_energy_is_printed_as_declared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = ask(tmp_path, "--accelerator", "nvidia h200", "--round", "2024-11", "--units", 256,
                 "--unit-power", "1 kW")["predictions"]  # fmt: skip
    assert row["energy_high_j"] == pytest.approx(256e3 * row["run_high_s"])
    assert f"H200, 256 units: {row['energy_j'] / J_PER_KWH:.3g} kWh" in capsys.readouterr().out


def test_backtest_is_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, figure = tmp_path / "cases.json", tmp_path / "cases.svg"
    words = ["mlperf", "predict", "SOURCE", "--backtest", "v2.0", "v3.0", "--json", str(file), "--figure", str(figure)]
    assert call(words) == 0
    found = json.loads(file.read_text())
    said = capsys.readouterr().out.splitlines()
    assert [line for line in said if line.startswith("###")] == ["### v2.0 from v1.0", "### v3.0 from v1.0, v2.0"]
    assert len([line for line in said if line.startswith("| cosmoflow")]) == len(found["cases"]) == 8
    assert found["all"]["submissions"] == 8
    assert {name: part["predicted"] for name, part in found["rounds"].items()} == {"v2.0": 4, "v3.0": 4}
    assert all(case["width_ratio"] == pytest.approx(case["run_high_s"] / case["run_low_s"]) for case in found["cases"])
    assert figure.exists()


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--round", "v9"), "forecast.unknown_round"),
        (("--round", "v1.0", *ON_V100), "forecast.no_earlier"),
        (("--round", "v3.0", "--accelerator", "Z80"), "accelerators.unknown_accelerator"),
        (("--round", "v3.0", "--system", "ORG/x"), "forecast.unknown_system"),
        (("--round", "v3.0"), "forecast.no_machine"),
        (("--round", "v3.0", *ON_V100, "--accelerator", "H100"), "predict_round.excludes"),
        (("--round", "v3.0", *ON_V100, "--units", "1"), "forecast.refused"),
        (("--round", "v3.0", "--within", "ten"), "predict_round.no_quantity"),
        (("--round", "v3.0", "--within", "-1 s"), "predict_round.no_quantity"),
        (("--round", "v3.0", *ON_V100, "--unit-power", "5 m"), "predict_round.no_quantity"),
        (("--accelerator", "H100"), "predict_round.needs_round"),
        ((*ON_V100, "--figure", "x.svg"), "predict_round.needs_round"),
        ((), "predict_round.missing"),
        (("--backtest", "v3.0"), "predict_round.excludes"),
    ],
)
def test_bad_questions_have_a_code(words: tuple[str, ...], code: str) -> None:
    with pytest.raises(ConfigError) as caught:
        call([*ASK, *words])
    assert caught.value.code == code


def test_bad_backtests_have_a_code() -> None:
    for words, code in (
        (["v9"], "forecast.unknown_round"),
        (["v1.0"], "forecast.no_earlier"),
        (["2024-11"], "backtest.nothing_published"),
    ):
        with pytest.raises(ConfigError) as caught:
            call(["predict", "round", "SOURCE", "--backtest", *words])
        assert caught.value.code == code
    with pytest.raises(ConfigError) as caught:
        call(["predict", "round", "SOURCE"])
    assert caught.value.code == "predict_round.missing"


def test_units_are_counts() -> None:
    with pytest.raises(TyperException, match="whole number"):
        call([*ASK, *ON_V100, "--round", "v3.0", "--units", "0"])


def test_figure_has_a_line_for_each_forecast() -> None:
    row = {"low_s": 10.0, "middle_s": 20.0, "high_s": 50.0}
    both = pd.DataFrame([row | {"label": "a $x$", "run_s": 30.0}, row | {"label": "b", "run_s": None}])
    (axes,) = plot_forecasts(both, "two").axes
    assert [label.get_text() for label in axes.get_yticklabels()] == [r"a \$x\$", "b"]
    assert axes.get_xscale() == "log"
    (empty,) = plot_forecasts(both.iloc[:0], "none").axes
    assert not empty.lines
