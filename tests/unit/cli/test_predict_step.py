"""The command: a table, JSON, and bad questions."""

import json

import pytest
from unit.predict.steps.made_blocks import make_report, make_step

from hpcai.cli.main import call
from hpcai.cli.predict_step import INTERPOLATED, MACHINE_OF_A_FILE, NOT_TIMED, OTHER_BATCH
from hpcai.core.errors import ConfigError, RecordError
from hpcai.predict.steps.report import NO_BLOCKS, SEVERAL_MACHINES
from hpcai.records.files import write_sealed


@pytest.fixture
def blocks(tmp_path):
    file = tmp_path / "blocks.json"
    report = make_report(
        make_step(),
        make_step(batch=16, step_s=8.0, arguments_s=0.25),
        make_step(network="dead", blocks=(), step_s=None),
    )
    write_sealed(report, file)
    return str(file)


def test_the_table_has_every_step_and_one_network_its_blocks(blocks, capsys):
    assert call(["predict", "step", blocks]) == 0
    printed = capsys.readouterr().out
    assert "-12.5%" in printed
    assert "a/Conv2D" not in printed
    assert call(["predict", "step", blocks, "--network", "net", "--batch", "8"]) == 0
    printed = capsys.readouterr().out
    assert "a/Conv2D" in printed
    assert "75.0%" in printed
    assert "dead" not in printed
    assert call(["predict", "step", blocks, "--network", "net", "--batch", "16"]) == 0
    assert "250.000" in capsys.readouterr().out


def test_the_results_of_a_study_stand_for_the_only_file_in_them(tmp_path, capsys):
    results = str(tmp_path)
    with pytest.raises(ConfigError) as refused:
        call(["predict", "step", results])
    assert refused.value.code == NO_BLOCKS.code
    for number, machine in enumerate(("laptop", "other")):
        file = tmp_path / "predict" / machine / "step_blocks.json"
        file.parent.mkdir(parents=True)
        write_sealed(make_report(make_step()), file)
        if not number:
            assert call(["predict", "step", results]) == 0
            assert "-12.5%" in capsys.readouterr().out
    with pytest.raises(ConfigError) as refused:
        call(["predict", "step", results])
    assert refused.value.code == SEVERAL_MACHINES.code
    assert call(["predict", "step", results, "--machine", "other"]) == 0


def test_json_has_no_nan(blocks, capsys):
    assert call(["predict", "step", blocks, "--output", "json"]) == 0
    content = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert [row["predicted_s"] for row in content["steps"]] == [3.5, 3.75, None]
    assert content["steps"][0]["method"] == "modelled"
    assert len(content["blocks"]) == 2


def test_a_batch_between_two_is_interpolated(blocks, capsys):
    question = ["predict", "step", blocks, "--network", "net", "--batch", "12"]
    assert call(question) == 0
    said = INTERPOLATED.find_in(capsys.readouterr().out)
    assert (said["network"], said["batch"], said["step_ms"], said["update_ms"]) == ("net", "12", "6000.00", "500.00")
    assert call([*question, "--output", "json"]) == 0
    found = json.loads(capsys.readouterr().out)["interpolated"]
    assert (found["step_s"], found["update_s"], found["method"]) == (6.0, 0.5, "modelled")


@pytest.mark.parametrize(
    ("question", "message"),
    [
        (["--network", "vgg99"], NOT_TIMED),
        (["--network", "net", "--batch", "17"], OTHER_BATCH),
        (["--network", "dead", "--batch", "9"], OTHER_BATCH),
        (["--machine", "laptop"], MACHINE_OF_A_FILE),
    ],
)
def test_bad_questions_get_one_sentence(blocks, question, message):
    with pytest.raises(ConfigError) as refused:
        call(["predict", "step", blocks, *question])
    assert refused.value.code == message.code


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(RecordError, match=r"none\.json"):
        call(["predict", "step", str(tmp_path / "none.json")])
