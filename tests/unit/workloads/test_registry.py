"""Each folder of the package is a benchmark; loading one part of it loads no other."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hpcai.config.workloads import BENCHMARKS
from hpcai.metrics.scores.trial_scores import is_error_metric
from hpcai.workloads.registry import WORKLOADS, load_part, read_beside

FOLDER = Path(__file__).parents[3] / "src/hpcai/workloads"
HEAVY = ("tensorflow", "keras", "h5py", "lmdb", "ase", "mlperf_logging")
LOADED = f"import json, sys; {{}}; print(json.dumps([name for name in {HEAVY} if name in sys.modules]))"


def test_every_folder_is_a_benchmark() -> None:
    folders = {path.name for path in FOLDER.iterdir() if (path / "__init__.py").is_file()}
    assert set(WORKLOADS) == set(BENCHMARKS) == folders
    assert len(folders) == 5


@pytest.mark.parametrize("name", WORKLOADS)
def test_settings_are_of_their_folder(name: str) -> None:
    model = load_part("hpcai.workloads.*.settings", name)
    assert BENCHMARKS[name] is model
    assert model.model_fields["workload"].annotation.__args__ == (name,)


@pytest.mark.parametrize("name", WORKLOADS)
def test_its_data_and_training_can_be_loaded(name: str) -> None:
    from hpcai.data.module import DataModule
    from hpcai.training.workload import Workload

    assert issubclass(load_part("hpcai.workloads.*.data", name), DataModule)
    training = load_part("hpcai.workloads.*.training", name)
    assert issubclass(training, Workload)
    assert is_error_metric(training.quality_metric) != training.higher_is_better, "tables tell it by the metric's name"
    if WORKLOADS[name].mlperf is None:
        assert training.mlperf_name == name
        return
    facts = load_part("hpcai.workloads.*.mlperf", name)
    assert training.mlperf_name == facts.name
    assert (training.quality_metric, training.quality_unit) == (facts.quality_metric, facts.quality_unit)
    named = re.findall(r"`(src/hpcai/[\w./]+)`", read_beside(name, "submission.md"))
    assert len(named) > 2
    assert all((FOLDER.parents[2] / path).exists() for path in named)


@pytest.mark.parametrize(
    "start", ["import hpcai.config.load", "import hpcai.mlperf_hpc.benchmarks", "import hpcai.training.registry"]
)
def test_nothing_heavy_is_loaded_to_know_them(start: str) -> None:
    done = subprocess.run([sys.executable, "-c", LOADED.format(start)], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []
