"""Runs as OpenMetrics: families with unit and end, labels, missing values; read by the parsers of both formats."""

import re
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
from unit.record_factory import make_record

from hpcai.cli.main import call
from hpcai.core.errors import RecordError, ResultsError
from hpcai.records.files import write_record
from hpcai.report import openmetrics
from hpcai.report.openmetrics import runs_as_openmetrics

SAMPLE = re.compile(r'([a-z_]+)\{((?:[a-z_]+="(?:[^"\\\n]|\\[\\"n])*",?)+)\} (\S+)')
PARSE = """
import json, sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse
from prometheus_client.parser import text_string_to_metric_families as parse_older
text = sys.stdin.read()
families = list(parse(text))
older = list(parse_older(text))
assert [(one.name, len(one.samples)) for one in older] == [(one.name, len(one.samples)) for one in families]
print(json.dumps({one.name: [one.type, one.unit, len(one.samples)] for one in families}))
"""


@pytest.fixture
def results(tmp_path):
    """Return a results folder with a run that reached its target, and one that failed with odd words."""
    good, bad = make_record(), make_record("failed", repetition=2)
    bad = bad.model_copy(update={"reason": 'rank 1: "C:\\x"\nkilled'})
    for number, record in enumerate((good, bad), 1):
        folder = tmp_path / f"results/runs/r{number}"
        (folder / "raw").mkdir(parents=True)
        for path in (folder / "record.json", folder / "raw/record.json"):
            write_record(record, path)
    for place in ("runs/discarded/r1", "runs/r1/attempts/a0", "hpc_ai500/one/logs/r1"):  # put aside, disturbed, copied
        (tmp_path / "results" / place).mkdir(parents=True)
        write_record(good, tmp_path / "results" / place / "record.json")
    return tmp_path / "results"


def families(text):
    """Return type and unit of each family, and its samples."""
    found = {name: {"type": kind, "unit": "", "samples": []} for name, kind in re.findall(r"# TYPE (\S+) (\S+)", text)}
    for name, unit in re.findall(r"# UNIT (\S+) (\S+)", text):
        found[name]["unit"] = unit
    for line in text.splitlines():
        if not line.startswith("#"):
            name, labels, value = SAMPLE.fullmatch(line).groups()
            found[name]["samples"].append((dict(re.findall(r'([a-z_]+)="((?:[^"\\]|\\.)*)"', labels)), value))
    return found


def test_each_number_of_a_run_is_a_gauge_in_its_unit(results):
    text = runs_as_openmetrics([results])
    assert text.endswith("\n# EOF\n")
    found = families(text)
    wall = found["hpcai_run_wall_seconds"]
    assert (wall["type"], wall["unit"], len(wall["samples"])) == ("gauge", "seconds", 2)
    assert {labels["repetition"] for labels, _ in wall["samples"]} == {"1", "2"}
    assert float(wall["samples"][0][1]) == make_record().wall_s
    assert found["hpcai_run_peak_memory_bytes"]["unit"] == "bytes"
    assert all(name.endswith(f"_{one['unit']}") for name, one in found.items() if one["unit"])
    assert not any(name.endswith(("_s", "_flop_per_s")) for name in found)


def test_what_was_not_measured_has_no_sample(results):
    found = families(runs_as_openmetrics([results]))
    (reached,) = found["hpcai_run_time_to_train_seconds"]["samples"]
    assert reached[0]["repetition"] == "1"
    assert "nan" not in {value for one in found.values() for _, value in one["samples"]}


def test_outcome_and_facts_of_a_failed_run(results):
    found = families(runs_as_openmetrics([results]))
    told = {labels["hpcai_run_outcome"]: value for labels, value in found["hpcai_run_outcome"]["samples"]
            if labels["repetition"] == "2"}  # fmt: skip
    assert told.pop("failed") == "1"
    assert set(told.values()) == {"0"}
    facts = [labels for labels, _ in found["hpcai_run_info"]["samples"] if labels["repetition"] == "2"]
    assert facts[0]["reason"] == r"rank 1: \"C:\\x\"\nkilled"


def test_the_older_format_knows_all_types_and_help_texts(results, monkeypatch):
    known = openmetrics.definitions()

    def find(table, column):
        key, found = known.find(table, column)
        return key, replace(found, definition='A "b" \\ c.')

    monkeypatch.setattr(openmetrics, "definitions", lambda: SimpleNamespace(find=find))
    text = runs_as_openmetrics([results])
    assert {one["type"] for one in families(text).values()} == {"gauge"}  # info and stateset are OpenMetrics alone
    helps = [line for line in text.splitlines() if line.startswith("# HELP hpcai_run_wall_seconds ")]
    assert helps == [r"# HELP hpcai_run_wall_seconds A 'b' \\ c."]
    assert not any('"' in line for line in text.splitlines() if line.startswith("#"))


def test_several_folders_are_told_apart_and_none_is_an_error(results, tmp_path, capsys):
    other = tmp_path / "other"
    (other / "runs/r1").mkdir(parents=True)
    write_record(make_record(), other / "runs/r1/record.json")
    assert call(["export", "openmetrics", str(results), str(other)]) == 0
    samples = families(capsys.readouterr().out)["hpcai_run_wall_seconds"]["samples"]
    assert [labels["results"] for labels, _ in samples] == [str(results)] * 2 + [str(other)]
    output = tmp_path / "runs.prom"
    assert call(["export", "openmetrics", str(other), "--output", str(output)]) == 0
    assert output.read_text().endswith("# EOF\n")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ResultsError):
        runs_as_openmetrics([tmp_path / "empty"])
    (other / "runs/r1/record.json").write_text("{")
    with pytest.raises(RecordError):
        runs_as_openmetrics([other])


@pytest.mark.slow
def test_the_parser_of_the_format_reads_it(results, tmp_path):
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "env")], check=True)
    python = tmp_path / "env/bin/python"
    subprocess.run([python, "-m", "pip", "install", "-q", "prometheus-client==0.26.0"], check=True)
    text = runs_as_openmetrics([results])
    done = subprocess.run([python, "-c", PARSE], input=text, capture_output=True, text=True, check=True)
    assert '"hpcai_run_wall_seconds": ["gauge", "seconds", 2]' in done.stdout
    torn = text.removesuffix("# EOF\n")
    done = subprocess.run([python, "-c", PARSE], input=torn, capture_output=True, text=True, check=False)
    assert done.returncode != 0
