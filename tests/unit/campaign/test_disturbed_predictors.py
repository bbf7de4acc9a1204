"""What was measured for predictions while others used the machine is named."""

import json

import pytest

from hpcai.campaign.run_command import DISTURBED_PREDICTORS, disturbed_predictors


@pytest.mark.parametrize(("others_s", "named"), [(0.1, False), (9.0, True)])
def test_a_disturbed_measurement_is_named(tmp_path, others_s, named):
    folder = tmp_path / "predict/box"
    folder.mkdir(parents=True)
    watched = {"node": "a", "cores": 2, "wall_s": 10.0, "others_s": others_s, "steal_s": 0.0}
    (folder / "step_blocks.json").write_text(json.dumps({"disturbance": [watched]}))
    (folder / "regressors.json").write_text(json.dumps({"regressors": {}}))
    (folder / "hpl.json").write_text("{")
    lines = disturbed_predictors(tmp_path)
    assert bool(lines) == named
    for line in lines:
        assert line.code == DISTURBED_PREDICTORS.code
        assert line.facts["names"] == str(folder / "step_blocks.json")


def test_where_nothing_was_measured_nothing_is_said(tmp_path):
    assert disturbed_predictors(tmp_path) == []
