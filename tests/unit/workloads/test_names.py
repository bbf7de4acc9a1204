"""No code outside a benchmark's folder names the benchmark, so that it stays one folder."""

import ast
import re
from pathlib import Path

import pytest
from unit.code_words import words

from hpcai.mlperf_hpc.benchmarks import OWN
from hpcai.workloads.registry import WORKLOADS

ROOT = Path(__file__).parents[3]
LIBRARY = ROOT / "src/hpcai"
LOGGED = [facts.name for facts in OWN.values()]
NAMES = re.compile("|".join(name.replace("_", "[_ ]?") for name in (*WORKLOADS, *LOGGED)), re.IGNORECASE)
EXCEPTIONS: frozenset[str] = frozenset()
"""Files that may name a benchmark, each with its reason; none is needed."""


def named(text: str) -> list[str]:
    return [f"{line}: {word}" for line, word in words(ast.parse(text)) if NAMES.search(word)]


MODULES = [
    path for folder in (LIBRARY, ROOT / "workflow/scripts") for path in sorted(folder.rglob("*.py"))
    if not path.is_relative_to(LIBRARY / "workloads") and str(path.relative_to(ROOT)) not in EXCEPTIONS
]  # fmt: skip


def test_no_module_names_a_benchmark() -> None:
    assert len(MODULES) > 300
    found = {str(path.relative_to(ROOT)): places for path in MODULES if (places := named(path.read_text()))}
    assert found == {}


def test_no_rule_of_the_workflow_names_one() -> None:
    files = [ROOT / "Snakefile", ROOT / "workflow/Snakefile", *(ROOT / "workflow/rules").glob("*.smk")]
    assert len(files) > 5
    assert [path.name for path in files if NAMES.search(path.read_text())] == []


def test_a_benchmark_names_no_other() -> None:
    for name in WORKLOADS:
        others = re.compile("|".join(other for other in WORKLOADS if other != name))
        for path in (LIBRARY / "workloads" / name).rglob("*.py"):
            assert not [word for _, word in words(ast.parse(path.read_text())) if others.search(word)], path


@pytest.mark.parametrize(
    "text",
    [
        "from hpcai.workloads import cosmoflow\n",
        "from hpcai.workloads.deepcam.settings import A\n",
        "class DeepCam:\n    pass\n",
        "x = {'opencatalyst': 1}\n",
        "f(image_classification=1)\n",
        "x = f'{y} of Extreme Weather'\n",
        "x = settings.extreme_weather\n",
        "x = name == 'oc20'\n",
    ],
)
def test_a_name_in_code_is_seen(text: str) -> None:
    assert named(text)


def test_documentation_does_not_count() -> None:
    assert named('"""CosmoFlow."""\nX = 1\n"""Of cosmoflow."""\n# deepcam\n') == []
