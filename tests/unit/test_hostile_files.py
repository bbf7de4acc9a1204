"""What is no file, or no file of ours, is refused by every reader of results and settings, and nothing blocks."""

import random
import subprocess
import sys

import pytest
from attack.hostile import HARMLESS, read_all, readers_of
from attack.hostile_files import files
from attack.study import write_config, write_stub_config
from unit.mlperf_hpc.analysis.import_trees import deepcam_logs, write_deepcam
from workflow_project import ROOT

from hpcai.config.load import load_study_file

FILES = files(random.Random(18))
CHEAP = [name for name in FILES if not name.endswith("bomb")]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("group", ["results", "settings"])
@pytest.mark.parametrize("name", CHEAP)
def test_no_reader_takes_it(tmp_path, group, name):
    path = tmp_path / "hostile"
    FILES[name](path)
    for reader, ending, words in read_all(readers_of([])[group], path):
        harmless = {(reader, name), (reader, "*")} & HARMLESS
        assert ending == "refused" or (ending == "accepted" and harmless), (reader, words)
    assert {one.name for one in tmp_path.iterdir()} <= {"hostile"}


@pytest.mark.parametrize(("tail", "ending"), [("", "accepted"), (':::MLLOG {"key": ', "refused")])
def test_the_attacked_import_accepts_a_round_unless_something_in_a_log_was_repaired(tmp_path, tail, ending):
    write_deepcam(tmp_path / "round", [log + tail for log in deepcam_logs()])
    reader = {"alone": readers_of([])["published rounds"]["alone"]}
    assert [found for _, found, _ in read_all(reader, tmp_path / "round")] == [ending]


def test_the_program_of_the_attack_starts():
    """It takes minutes and runs seldom; what it imports changes every day."""
    program = [sys.executable, ROOT / "tests/attack/run.py", "--help"]
    assert subprocess.run(program, check=False, capture_output=True).returncode == 0


@pytest.mark.parametrize(("write", "variants"), [(write_config, {"w", "real"}), (write_stub_config, {"w"})])
def test_the_studies_that_are_attacked_are_valid(tmp_path, write, variants):
    campaign = load_study_file(write(tmp_path / "config"))
    assert {row.variant for row in campaign.rows} == variants
