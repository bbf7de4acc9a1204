"""Plans in their files."""

import errno

import pytest
from unit.training.training_plans import make_plan

from hpcai.config.plan_file import read_plan, write_plan
from hpcai.core.errors import ConfigError


def test_a_changed_plan_is_refused(tmp_path):
    plan, path = make_plan(), tmp_path / "plan.json"
    write_plan(plan, path)
    assert read_plan(path) == plan
    assert read_plan(path).digest == plan.digest
    text = path.read_text()
    for damaged in ("{}", text.replace('"max_epochs": 2', '"max_epochs": 3', 1)):
        assert damaged != text
        path.write_text(damaged)
        with pytest.raises(ConfigError, match="no valid run plan"):
            read_plan(path)


def test_a_plan_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    plan, path = make_plan(), tmp_path / "plan.json"
    write_plan(plan, path)

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("hpcai.core.files.os.fdopen", full)
    with pytest.raises(OSError, match="No space"):
        write_plan(plan.model_copy(update={"study": "another"}), path)
    assert read_plan(path) == plan
