"""What the library offers is used: no public function or class is there for the tests alone."""

import re
from collections import Counter, defaultdict
from pathlib import Path, PurePosixPath

from hpcai.catalogue.figures import CHARTS, FIGURES

ROOT = Path(__file__).parents[2]
SUFFIXES = {".py", ".smk", ".j2", ".rst"}
PROSE = re.compile(r'"""(?:(?!""").)*"""|^\s*#[^\n]*$|  #[^\n"]*$', re.DOTALL | re.MULTILINE)
"""Documentation and comments: what only they name is not used."""
DEFINITION = re.compile(r"^(?:async def|def|class) ([A-Za-z]\w*)", re.MULTILINE)
COMMAND = re.compile(r"^@app\.(?:command|callback)\((?:(?!^def ).)*^def (\w+)", re.DOTALL | re.MULTILINE)
"""A command or a group's own options: Typer calls it by what is typed, nothing by its name."""
NAME = re.compile(r"\b[A-Za-z]\w*")
ELSEWHERE = {one.function for one in [*FIGURES.values(), *CHARTS.values()]}
"""Names that no text has: figures are drawn by the names that their declarations give the catalogue."""


def unused(texts: dict[str, str]) -> list[str]:
    """Return the public functions and classes of ``src`` that nothing names besides their definitions.

    A file names one of another file if it names its module as well: several modules have functions of the same name.

    Parameters
    ----------
    texts
        Files by their paths below the repository's root.
    """
    code = {path: PROSE.sub("", text) if path.endswith((".py", ".smk")) else text for path, text in texts.items()}
    names = {path: Counter(NAME.findall(text)) for path, text in code.items()}
    users = defaultdict(list)
    for path, counts in names.items():
        for name in counts:
            users[name].append(path)
    found = []
    for path, text in code.items():
        commands = set(COMMAND.findall(text))
        for name, times in Counter(DEFINITION.findall(text)).items() if path.startswith("src/") else ():
            if name in commands:
                continue
            others = [user for user in users[name] if user != path]
            if names[path][name] == times and not any(module_of(path) in names[user] for user in others):
                found.append(f"{path}: {name}")
    return found


def module_of(path: str) -> str:
    place = PurePosixPath(path)
    return place.parent.name if place.stem == "__init__" else place.stem


def texts_of(*folders: str) -> dict[str, str]:
    files = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in SUFFIXES]
    return {path.relative_to(ROOT).as_posix(): path.read_text() for path in [*files, ROOT / "workflow/Snakefile"]}


def test_every_function_and_class_is_used():
    texts = texts_of("src", "workflow", "bench", "reports")
    assert len(texts) > 500
    assert [one for one in unused(texts) if one.rpartition(" ")[2] not in ELSEWHERE] == []


def test_what_only_documentation_names_is_found():
    module = '"""See :func:`lost`."""\n\n\ndef lost():\n    """Not `lost`."""\n\n\ndef kept():\n    pass  # lost\n'
    script = "from hpcai.a import kept\n# lost\n"
    assert unused({"src/hpcai/a.py": module, "workflow/b.py": script}) == ["src/hpcai/a.py: lost"]
    assert unused({"src/hpcai/a.py": module, "workflow/rules/b.smk": 'run("hpcai.a:lost")\nkept'}) == []


def test_a_namesake_of_another_module_does_not_count():
    module, script = "def run():\n    pass\n", "from hpcai.b import run\n"
    assert unused({"src/hpcai/a.py": module, "src/hpcai/b.py": module, "bench/c.py": script}) == ["src/hpcai/a.py: run"]


def test_a_command_is_used_by_whoever_types_it_and_what_stands_beside_it_is_not():
    command = '@app.command(cls=Command)\n@takes(Wanted)\ndef submit(wanted):\n    """Hand in."""\n\n\n'
    assert unused({"src/cli.py": f"{command}def left():\n    pass\n"}) == ["src/cli.py: left"]
