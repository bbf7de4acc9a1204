"""A benchmark is one folder and its YAML files: a toy that no other file names is found and accepted."""

import json
from pathlib import Path

import pytest
from unit.workloads.toy_library import TESTS, TOY, call_python, copy_library, write_study

from hpcai.campaign.library_digest import import_closure
from hpcai.workloads.registry import WORKLOADS

SUMS = """
import sys
from pathlib import Path
import yaml
from hpcai.data.prepare import prepare_dataset
from hpcai.data.registry import data_module
benchmark = yaml.safe_load(Path(sys.argv[1]).read_text())
folder = Path(sys.argv[2])
module = data_module("toy", benchmark["data"])
prepare_dataset("toy", module, folder, folder / "datasets.tsv")
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_library(tmp_path_factory.mktemp("toy"))


def test_it_is_found(library: Path) -> None:
    found = call_python(
        library, "-c", "import hpcai; from hpcai.workloads.registry import WORKLOADS; print(hpcai.__file__, *WORKLOADS)"
    )
    assert found.split() == [str(library / "hpcai/__init__.py"), *sorted([*WORKLOADS, "toy"])]


def test_its_settings_are_in_the_schema(library: Path) -> None:
    schema = json.loads(call_python(library, "-m", "hpcai", "schema"))["$defs"]
    own = {"ToyBenchmark", "ToyData", "ToyModel", "ToyRecipe"}
    others = json.loads((TESTS.parent / "config/schema.json").read_text())["$defs"]
    assert {name: entry for name, entry in schema.items() if name not in own} == others
    assert own <= set(schema)


def test_a_study_of_it_is_valid(library: Path, tmp_path: Path) -> None:
    write_study(tmp_path / "config")
    assert "valid; 2 runs of 1 benchmarks" in call_python(library, "-m", "hpcai", "check", tmp_path / "config/toy.yaml")


def test_its_data_are_prepared(library: Path, tmp_path: Path) -> None:
    call_python(library, "-c", SUMS, TOY / "toy.yaml", tmp_path / "data")
    manifest = json.loads((tmp_path / "data/manifest.json").read_text())
    assert manifest["workload"] == "toy"
    assert len(list((tmp_path / "data").glob("*/*.tfrecord"))) == 32 + 7


def test_digests_follow_its_parts(library: Path) -> None:
    """Dependencies of a rule are found without a list: settings everywhere, training only where steps run."""
    toy = library / "hpcai/workloads/toy"
    assert {toy / "settings.py", toy / "training.py", toy / "data.py"} <= import_closure(
        library / "hpcai/machine/work/step.py", library
    ) | import_closure(library / "hpcai/data/registry.py", library)
    settings_alone = import_closure(library / "hpcai/config/load.py", library)
    assert toy / "settings.py" in settings_alone
    assert not {toy / "training.py", toy / "data.py"} & settings_alone
