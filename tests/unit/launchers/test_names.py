"""No code outside a launcher's module names the launcher, so that it stays one file."""

import ast
import re
from pathlib import Path

import pytest
from unit.code_words import words

from hpcai.launchers.registry import LAUNCHERS

ROOT = Path(__file__).parents[3]
LIBRARY = ROOT / "src/hpcai"
NAMES = re.compile(rf"(?<![\w.-])({'|'.join(LAUNCHERS)})(?![\w-])")
EXCEPTIONS = {
    # Programs, not launchers of runs.
    "slurm/step.py": "Slurm's program starts a step of a job, under every launcher",
    "machine/hpl/run.py": "the HPC Challenge suite of a distribution belongs to its own MPI",
    "parsers/osu.py": "advice how to make the file that could not be read",
    "training/spawn.py": "the program of that launcher",
    # Open: a launcher that is added is not offered there.
    "setup/ask.py": "programs that a host is asked for",
    "setup/machine_values.py": "programs that a host is asked for",
    "training/collectives/meeting.py": "advice in an error",
}


def named(text: str) -> list[str]:
    return [f"{line}: {word}" for line, word in words(ast.parse(text)) if NAMES.search(word)]


def test_no_module_names_a_launcher() -> None:
    files = [*LIBRARY.rglob("*.py"), *(ROOT / "workflow/scripts").glob("*.py")]
    own = LIBRARY / "launchers"
    others = [file for file in files if file.parent != own or file.stem not in LAUNCHERS]
    assert len(others) > 300
    found = {str(file.relative_to(ROOT)): places for file in others if (places := named(file.read_text()))}
    assert sorted(found) == sorted(f"src/hpcai/{file}" for file in EXCEPTIONS)


def test_no_rule_of_the_workflow_names_one() -> None:
    files = [ROOT / "Snakefile", *(ROOT / "workflow/rules").glob("*.smk")]
    assert len(files) > 5
    assert [file.name for file in files if NAMES.search(file.read_text())] == []


def test_a_launcher_names_no_other() -> None:
    for name in LAUNCHERS:
        others = re.compile("|".join(rf"(?<![\w.-]){other}(?![\w-])" for other in LAUNCHERS if other != name))
        tree = ast.parse((LIBRARY / f"launchers/{name}.py").read_text())
        assert not [word for _, word in words(tree) if others.search(word)], name


@pytest.mark.parametrize(
    "text", ["from hpcai.launchers import srun\n", "x = {'mpirun': 1}\n", "x = f'{y} of horovodrun'\n", "f(srun=1)\n"]
)
def test_a_name_in_code_is_seen(text: str) -> None:
    assert named(text)
