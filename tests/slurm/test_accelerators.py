"""Ranks with accelerators in real jobs without MPI: Slurm gives pretended ones, and TensorFlow is told to see them."""

import json
import sys
from pathlib import Path

import pytest
from end_to_end.rank_runs import prepared
from end_to_end.test_accelerators import FAKED, UUIDS, gpu_plan
from slurm.test_launchers import run_job

from hpcai.config.plan_file import write_plan

LISTED = "\n".join(f"GPU {number}: one (UUID: {uuid})" for number, uuid in enumerate(UUIDS))
PER_TASK = "command[command.index('--overlap'):command.index('--overlap')] = ['--gpus-per-task=1']"
STEP = "command = [sys.executable, '-m', 'hpcai.training.spawn', *meeting_step(ranks), *program]"
WAYS = {
    "all accelerators of the node": ("", ["0,1", "0,1"]),
    "one for each task": (f"from hpcai.launchers.ranks import meeting_step; {STEP}; {PER_TASK}", ["0", "1"]),
}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return prepared(gpu_plan("tensorflow"), tmp_path_factory.mktemp("faked"))


@pytest.mark.parametrize(
    ("engine", "way"),
    [
        ("tensorflow", "one for each task"),
        pytest.param("tensorflow", "all accelerators of the node", marks=pytest.mark.slow),
        *(pytest.param("horovod", way, marks=pytest.mark.slow) for way in WAYS),
    ],
)
def test_ranks_train_on_accelerators_of_their_own(cluster, tmp_path, data, engine, way):
    change, visible = WAYS[way]
    layout, raw = tmp_path / "layout", tmp_path / "raw"
    layout.mkdir()
    (raw / "ranks").mkdir(parents=True)
    for rank in range(2):
        (layout / str(rank)).write_text(f"\n{LISTED}")
    write_plan(gpu_plan(engine), raw / "plan.json")
    files = ["--plan", str(raw / "plan.json"), "--raw", str(raw), "--manifest", str(data.manifest)]
    files += ["--page-cache", "kept", "--scratch", str(tmp_path / "scratch")]
    code = f"""
        ranks = Ranks("r", 1, 2, 1)
        program = {[sys.executable, str(FAKED), str(layout), *files]!r}
        command = launch_command("spawn", ranks, program)
        {change}
        sys.exit(subprocess.run(command).returncode)
    """
    output = run_job(cluster, tmp_path, code, "--partition=gpu", "--gres=gpu:2", nodes=1)
    assert (raw / "training.json").exists(), output
    places = [json.loads(path.read_text())["placement"] for path in sorted((raw / "ranks").iterdir())]
    assert [place["accelerator_uuid"] for place in places] == list(UUIDS)
    assert [Path(layout, f"seen{rank}").read_text() for rank in (0, 1)] == visible
