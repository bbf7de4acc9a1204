"""The command ``hpl``: options with units, sweeps, inverse questions, three formats, one-line errors."""

import json
from io import StringIO
from pathlib import Path

import pandas as pd
import pytest
from unit import refusals

from hpcai.cli import predict_hpl
from hpcai.cli.main import call
from hpcai.core.errors import ConfigError
from hpcai.predict.hpl.figures_data import single_node_scenario, two_node_scenario
from hpcai.predict.hpl.simulate import simulate

MACHINES = Path(__file__).parents[3] / "config/machines"
NODE = [
    *("--order", "125000", "--block", "256", "--gpus-per-node", "4", "--gpu-rate", "6.6 TFLOP/s"),
    *("--cpu-rate", "2.6624 TFLOP/s", "--blas-efficiency", "0.9", "--gpu-efficiency", "0.9"),
]
LINKED = [*NODE, "--host-link", "32 GB/s"]
SOURCE = ["--machine", str(MACHINES / "paper_hu_lu_4gpu.yaml"), "--order", "176000", "--block", "128"]


def hpl(*words):
    return call(["predict", "hpl", *words])


@pytest.fixture
def ask(capsys):
    def run(*words):
        assert hpl(*words) == 0
        return capsys.readouterr().out

    return run


def ask_json(ask, *words):
    return json.loads(ask(*words, "--output", "json"))


def test_one_scenario(ask):
    (row,) = ask_json(ask, *LINKED)
    assert row["efficiency_ratio"] == pytest.approx(0.7536, abs=1e-4)
    assert (row["variant"], row["form"], row["method"], row["flop_count"]) == ("device", "corrected", "modelled", "hpl")
    assert row["time_s"] == float(simulate(single_node_scenario()).time_s)


def test_a_plain_number_is_in_si_units_and_presets_have_names(ask):
    by_name = ask_json(ask, *NODE, "--host-link", "paper_Gen3")
    assert by_name == ask_json(ask, *NODE, "--host-link", "32e9") == ask_json(ask, *LINKED)


def test_sweeps_are_all_combinations(ask):
    sweep = ("--sweep", "block=128,256", "--sweep", "host-link=paper_Gen3,64 GB/s", "--sweep", "variant=device,pipe")
    frame = pd.read_csv(StringIO(ask(*NODE, *sweep, "--chunks", "64", "--output", "csv")))
    assert len(frame) == 8
    assert frame.groupby("variant").size().to_dict() == {"device": 4, "pipe": 4}
    one = frame.query("variant == 'device' and block == 128 and host_link_bytes_per_s == 64e9")
    assert one["efficiency_ratio"].item() == pytest.approx(0.7808, abs=1e-4)


def test_sweeps_of_networks_and_topologies(ask):
    rows = ask_json(
        ask, *LINKED, "--nodes", "4", "--sweep", "network=EDR,10GbE,100 Gbit/s", "--sweep", "topology=mesh,bus"
    )
    assert [row["network"] for row in rows[::2]] == ["InfiniBand EDR 4x", "Ethernet 10 Gbit/s", "100 Gbit/s"]
    times = {(row["network"], row["topology"]): row["time_s"] for row in rows}
    assert times["InfiniBand EDR 4x", "mesh"] == pytest.approx(times["100 Gbit/s", "mesh"], rel=1e-12)
    assert times["Ethernet 10 Gbit/s", "bus"] > times["Ethernet 10 Gbit/s", "mesh"]


def test_faster_gpus(ask):
    rows = ask_json(ask, *LINKED, "--sweep", "gpu-multiplier=1,2,4,8")
    assert [row["efficiency_ratio"] for row in rows] == pytest.approx([0.7536, 0.7026, 0.6188, 0.4997], abs=1e-4)


def test_a_machine_file_with_options_before_it(ask):
    (row,) = ask_json(ask, *SOURCE)
    assert row["nodes"] == 2
    (faster,) = ask_json(ask, *SOURCE, "--cpu-rate", "2.6624 TFLOP/s")
    expected = float(simulate(two_node_scenario(100e9)).rate_flop_per_s)
    assert faster["rate_flop_per_s"] == pytest.approx(expected, rel=1e-12)
    assert row["rate_flop_per_s"] < expected


def test_steps(ask):
    frame = pd.read_csv(StringIO(ask(*LINKED, "--steps", "--output", "csv")))
    assert len(frame) == 125000 // 256
    (row,) = ask_json(ask, *LINKED)
    assert frame["step_s"].sum() == pytest.approx(row["time_s"], rel=1e-9)


@pytest.mark.parametrize(
    ("words", "value", "unit"),
    [
        ([*LINKED, "--inverse", "host-link", "--target", "0.75"], 29.65e9, "byte/s"),
        ([*LINKED, "--inverse", "block"], 32, ""),
        (["--block", "256", "--inverse", "order", "--memory", "64 GiB"], 87808, ""),
    ],
)
def test_inverse_questions(ask, words, value, unit):
    (row,) = ask_json(ask, *words)
    assert row["answer"] == pytest.approx(value, rel=1e-3)
    assert row["unit"] == unit
    assert row["variant"] == "device"


def test_inverse_network(ask):
    (row,) = ask_json(ask, *SOURCE, "--inverse", "network", "--target", "0.55")
    (again,) = ask_json(ask, *SOURCE, "--network", str(row["answer"]))
    assert again["efficiency_ratio"] == pytest.approx(0.55, rel=1e-9)


def test_what_is_not_reachable_is_null_with_its_reason(ask):
    (row,) = ask_json(ask, *LINKED, "--inverse", "host-link", "--target", "0.95")
    assert row["answer"] is None
    assert row["reason"].startswith("not reachable")


def test_the_table_says_common_values_once(ask):
    text = ask(*NODE, "--sweep", "host-link=paper_Gen3,paper_Gen4")
    assert text.count("corrected") == 1
    assert "method: modelled" in text
    assert len(text.splitlines()[-1].split()) == 4
    assert "efficiency_ratio: 0.753" in ask(*LINKED)


def test_help_has_an_example(capsys):
    assert hpl("--help") == 0
    text = capsys.readouterr().out
    assert "examples:" in text
    assert "--inverse order" in text
    assert "55 %" in text


ORDER = ["--inverse", "order", "--memory", "64 GiB", "--block", "256"]
CPU = ["--order", "1000", "--block", "100", "--variant", "cpu", "--cpu-rate", "50 GFLOP/s"]


def test_the_variant_of_processors_needs_one_rate_only(ask):
    (row,) = ask_json(ask, *CPU)
    (three,) = ask_json(ask, *CPU, "--trsm-rate", "40 GFLOP/s", "--panel-rate", "30 GFLOP/s")
    assert three["time_s"] > row["time_s"]
    (other,) = ask_json(ask, *CPU, "--flop-count", "linpack")
    assert other["rate_flop_per_s"] > row["rate_flop_per_s"]


@pytest.mark.parametrize(
    ("rates", "parts"),
    [
        ([], "solve and panel"),
        (["--trsm-rate", "40 GFLOP/s"], "panel"),
        (["--panel-rate", "40 GFLOP/s"], "solve"),
        (["--trsm-rate", "40 GFLOP/s", "--panel-rate", "30 GFLOP/s"], None),
    ],
)
def test_what_is_not_counted_is_said(ask, rates, parts):
    (row,) = ask_json(ask, *CPU, *rates)
    said = predict_hpl.NOT_COUNTED.find_in(row.get("bound", ""))
    assert (said and said["parts"]) == parts
    assert bool(predict_hpl.NOT_COUNTED.find_in(ask(*CPU, *rates))) == bool(parts)


def test_only_the_variant_of_processors_is_a_bound(ask):
    rows = ask_json(ask, *LINKED, "--sweep", "variant=device,cpu")
    assert [bool(row["bound"]) for row in rows] == [False, True]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([*NODE], r"--host-link is missing .* declare hpl.host_link in a machine file"),
        ([*LINKED, "--nodes", "2"], r"--network is missing"),
        ([*LINKED, "--gpu-rate", "0 TFLOP/s"], r"gpu_rate_flop_per_s: found .* expected above 0"),
        ([*LINKED, "--gpu-rate", "3 parsec"], r"--gpu-rate '3 parsec': no quantity .* FLOP/s"),
        ([*LINKED, "--order", "100"], r"order: found 100.0; expected at least the block"),
        ([*LINKED, "--order", "many"], r"--order 'many' is no number"),
        (
            [*LINKED, "--nodes", "2", "--network", "EDR", "--topology", "torus"],
            r"'torus' is not known; choose one of star",
        ),
        ([*LINKED, "--network", "fast"], r"--network 'fast': .* 10GbE"),
        ([*LINKED, "--host-link", "paper_Gen9"], r"paper_Gen9.* paper_Gen3"),
        ([*LINKED, "--blas-efficiency", "1.5"], r"blas_ratio: found 1.5"),
        ([*LINKED, "--gpu-multiplier", "0"], r"--gpu-multiplier"),
        ([*LINKED, "--form", "printed"], r"'device' has no printed form"),
        ([*LINKED, "--sweep", "colour=1"], r"'colour' cannot be swept; choose one of order"),
        ([*LINKED, "--sweep", "block="], r"expected NAME=a,b,c"),
        ([*LINKED, "--sweep", "block=1", "--sweep", "block=2"], r"each name once"),
        ([*LINKED, "--sweep", "block=128,256", "--steps"], r"--sweep cannot be combined"),
        ([*LINKED, "--inverse", "network", "--target", "0.5"], r"2 nodes or more"),
        ([*LINKED, "--inverse", "host-link"], r"needs --target"),
        (["--inverse", "order", "--block", "256"], r"needs --memory and --block"),
        (["--inverse", "order", "--block", "256", "--memory", "1 kB"], r"impossible memory"),
        (["--inverse", "order", "--block", "256", "--memory", "some"], r"--memory 'some'"),
        (["--inverse", "order", "--block", "0.5", "--memory", "1 GB"], r"--block: found 0.5"),
        ([*ORDER, "--block", "nan"], r"--block: found nan"),
        ([*ORDER, "--block", "inf"], r"--block: found inf"),
        ([*ORDER, "--sweep", "block=128,256"], r"--sweep cannot be combined"),
        ([*ORDER, "--machine", "missing.yaml"], r"missing.yaml: found no such file"),
        (["--machine", "missing.yaml"], r"missing.yaml: found no such file"),
        (
            ["--machine", str(MACHINES / "laptop.yaml"), "--order", "9", "--block", "3"],
            r"hpl.processor_peak.* in laptop.yaml",
        ),
    ],
)
def test_errors_are_one_line(words, message):
    with pytest.raises(ConfigError, match=message) as caught:
        hpl(*words)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("option", "text"), [("--variant", "nonsense"), ("--form", "nonsense")])
def test_the_question_for_the_order_ignores_no_wrong_choice(option, text):
    with refusals.refused(ConfigError, predict_hpl.UNKNOWN_CHOICE, option=option, found=text):
        hpl(*ORDER, option, text)


def test_a_machine_file_that_is_not_valid_is_one_line_too(tmp_path):
    file = tmp_path / "bad.yaml"
    file.write_text((MACHINES / "paper_hu_lu_2gpu.yaml").read_text().replace("topology: star", "topology: torus"))
    with pytest.raises(ConfigError, match=r"hpl.topology: found 'torus'") as caught:
        hpl("--machine", str(file))
    assert "\n" not in str(caught.value)
    file.write_text("")
    with pytest.raises(ConfigError, match=r"bad.yaml: an empty machine file"):
        hpl("--machine", str(file))
