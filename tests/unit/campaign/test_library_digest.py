"""A digest covers all modules that a script loads, and no others."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hpcai.campaign import library_digest as module
from hpcai.campaign.library_digest import import_closure, library_digest

ROOT = Path(__file__).resolve().parents[3]
SOURCE = ROOT / "src"
RULES = sorted((ROOT / "workflow/rules").glob("*.smk"))
DIGESTED = sorted({path for rules in RULES for path in re.findall(r'library_of\(\s*"([^"]+)"', rules.read_text())})
# Prints for each file the modules of the library that its top level loads, each in a copy of a process that has loaded
# what takes long already. Nothing of the workflow runs: `snakemake` is not there.
LOADED = """
import ast, json, os, sys
import pandas, pydantic, pyarrow.parquet, scipy.stats, seaborn
for path in sys.argv[1:]:
    if os.fork():
        os.wait()
        continue
    tree = ast.parse(open(path).read())
    imports = [one for one in tree.body if isinstance(one, (ast.Import, ast.ImportFrom))]
    exec(compile(ast.Module(imports, []), path, "exec"))
    loaded = [one.__file__ for name, one in sys.modules.items() if name.split(".")[0] == "hpcai"]
    print(json.dumps([path, loaded]), flush=True)
    os._exit(0)
"""


@pytest.fixture(scope="module")
def loaded():
    """Files that Python really loads, by path."""
    done = subprocess.run(
        [sys.executable, "-c", LOADED, *DIGESTED], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return {path: {Path(file) for file in files} for path, files in map(json.loads, done.stdout.splitlines())}


def test_rules_have_digests():
    assert len(DIGESTED) > 15
    assert all((ROOT / path).is_file() for path in DIGESTED)


@pytest.mark.parametrize("path", DIGESTED)
def test_closure_holds_what_is_loaded(path, loaded):
    """Lists kept by hand were incomplete for 27 of 28 rules."""
    assert loaded[path]
    assert loaded[path] <= import_closure(ROOT / path, SOURCE)


def test_closure_of_lazy_imports_and_registries():
    """The counted work depends on the models, which are loaded by name when they are needed."""
    closure = import_closure(SOURCE / "hpcai/machine/work/step.py", SOURCE)
    assert SOURCE / "hpcai/workloads/deepcam/training/workload.py" in closure
    assert SOURCE / "hpcai/workloads/opencatalyst/training/model.py" in closure


def test_star_stands_for_the_same_part_of_every_benchmark():
    """Every analysis reads the settings of all benchmarks, but an edit of a network changes none of its numbers."""
    closure = import_closure(ROOT / "workflow/scripts/collect_runs.py", SOURCE)
    parts = {
        file.relative_to(SOURCE / "hpcai/workloads").parts[1:] for file in closure if "workloads" in file.parts[:-1]
    }
    assert ("settings.py",) in parts
    assert not {part for part in parts if part[:1] in (("training",), ("training.py",), ("data",))}


def test_closure_holds_data_files_beside_modules():
    assert SOURCE / "hpcai/rules/hpc_ai500.yaml" in import_closure(ROOT / "workflow/scripts/collect_runs.py", SOURCE)


def test_closure_leaves_out_what_is_not_loaded():
    closure = import_closure(ROOT / "workflow/scripts/collect_runs.py", SOURCE)
    assert not [file for file in closure if "parsers" in file.parts or "plots" in file.parts]


@pytest.fixture
def package(tmp_path):
    """A library of three modules, of which a script loads two."""
    folder = tmp_path / "src/hpcai"
    folder.mkdir(parents=True)
    for name, text in {"__init__": "", "used": "from hpcai import later\n", "later": "A = 1\n", "other": ""}.items():
        (folder / f"{name}.py").write_text(text)
    (tmp_path / "script.py").write_text("def run():\n    from hpcai.used import later\n")
    _forget()
    yield tmp_path
    _forget()


def _forget():
    parts = (module._modules, module._matching, module._loaded_by, module._content, module._data_files)
    for cached in (library_digest, *parts):
        cached.cache_clear()


@pytest.mark.parametrize(("name", "changes"), [("used", True), ("later", True), ("__init__", True), ("other", False)])
def test_digest_follows_edits(package, name, changes):
    before = library_digest(package / "script.py", package / "src")
    file = package / f"src/hpcai/{name}.py"
    file.write_text(file.read_text() + "B = 2\n")
    _forget()
    assert (library_digest(package / "script.py", package / "src") != before) == changes


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("hpcai.many.*", {"one/part.py", "one/other.py", "two/part/deep.py"}),
        ("hpcai.many.*.part", {"one/part.py", "two/part/deep.py"}),
        ("hpcai.many.one.*", {"one/part.py", "one/other.py"}),
        ("hpcai.many.*.none", set()),
    ],
)
def test_star_in_a_name(package, name, found):
    folder = package / "src/hpcai/many"
    for file in ("one/part.py", "one/other.py", "two/part/deep.py"):
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text("")
    (package / "script.py").write_text(f'PARTS = "{name}"\n')
    _forget()
    closure = import_closure(package / "script.py", package / "src")
    assert {str(file.relative_to(folder)) for file in closure if file.is_relative_to(folder)} == found
