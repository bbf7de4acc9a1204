"""Bad input in files of settings, tables and command lines: one clear sentence each, the same for both ways."""

import os
import random
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from attack.apart import Outcome, call_apart
from attack.study import write_config
from attack.tally import Tally, Verdict
from workflow_project import Project

from hpcai.__main__ import main
from hpcai.core.files import write_atomically

DIGITS = "9" * 5000
ODD_VALUES = (
    *(".inf", "-.inf", ".nan", "1e400", "-1", "0", "''", "~", "yes", "[]", "{}", "[[[]]]", "{a: {b: c}}", "2026-02-31"),
    *(
        DIGITS,
        f"0x{'f' * 5000}",
        "0b2",
        "1_0",
        "0o9",
        "12:30:45",
        "!!binary a",
        "!!set {a}",
        "!!timestamp x",
        "!!int x",
    ),
    *(
        "!!python/object/apply:os.getpid []",
        "*nothing",
        "&a [*a]",
        "'\\0'",
        '"\\ud800"',
        '"\\x00"',
        "|\n  a\n  b",
        "a: b",
    ),
    *(
        "../../etc/passwd",
        "/dev/zero",
        "$(touch canary)",
        "`touch canary`",
        "a b",
        "é",
        "1 / 0 B",
        "9**9**9 B",
        "inf B",
    ),
)
FILES = ("tiny.yaml", "machines/box.yaml", "benchmarks/cosmoflow_mini.yaml", "benchmarks/resnet50_mini.yaml")
TABLES = ("runs/attacked.tsv", "runs/attacked_weak.tsv")
TRACEBACK = re.compile(
    r"Traceback \(most recent call last\)|^(?!WorkflowError)\w+(Error|Exception) in file", re.MULTILINE
)
"""What Python and Snakemake print of errors that nobody expected."""
LIMIT_S = 120
UNREADABLE = ("a FIFO", "a device", "a sparse giant", "no file")
"""What Snakemake itself waits for, reads without end, or does not miss; `hpcai run` refuses it first."""
Damage = Callable[[Path], object]


def attack(folder: Path, random_numbers: random.Random, count: int) -> Tally:
    """Give bad settings to `hpcai check` and to `snakemake -n`, and bad command lines to `hpcai`.

    Parameters
    ----------
    folder
        An empty folder.
    random_numbers
        Which settings are changed, and how.
    count
        Changed files of settings; all known bad files and command lines are tried besides.
    """
    tally, config = Tally("bad input"), folder / "config"
    write_config(config)
    damages = [*_whole_files(), *(_changed_value(config, random_numbers) for _ in range(count))]
    for name, file, damage in damages:
        path = config / file
        whole = path.read_bytes()
        damage(path)
        try:
            _try_both(tally, folder, f"{file}: {name}", opened_first=file == "tiny.yaml")
        finally:
            _put(path, whole)
    _command_lines(tally, folder)
    return tally


def _whole_files() -> Iterator[tuple[str, str, Damage]]:
    """Yield what is wrong with a whole file, the file, and what makes it so."""
    for file in ("tiny.yaml", "machines/box.yaml", "runs/attacked.tsv"):
        yield "a folder", file, lambda path: (path.unlink(), path.mkdir())
        yield "a FIFO", file, lambda path: (path.unlink(), os.mkfifo(path))
        yield "a device", file, lambda path: (path.unlink(), path.symlink_to("/dev/zero"))
        yield "no file", file, lambda path: path.unlink()
        yield "no UTF-8", file, lambda path: path.write_bytes(path.read_bytes() + b"# gr\xf6\xdfe\n\xff: 1\n")
        yield "a byte-order mark", file, lambda path: path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
        yield "UTF-16", file, lambda path: path.write_bytes(path.read_text().encode("utf-16"))
        yield "NUL", file, lambda path: path.write_bytes(path.read_bytes() + b"\0")
        yield "nothing in it", file, lambda path: path.write_bytes(b"")
        yield "Windows' line ends", file, lambda path: path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
        yield "a sparse giant", file, lambda path: os.truncate(path, 1 << 34)
    for name, text in {
        "deep brackets": "x: " + "[" * 20_000,
        "deep keys": "\n".join(f"{' ' * n}a:" for n in range(2000)),
        "merge key": "limits: &a {run_s: 3 s}\npredict:\n  <<: *a\n",
        "doubled key": "name: a\nname: b\n",
        "two documents": "---\nname: a\n---\nname: b\n",
        "aliases of aliases": "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 40)),
        "odd keys": "? [a, b]\n: 1\n? 2026-01-01\n: 2\n~: 3\non: 4\n3: 5\n",
        "tabs": "name:\ta\n\tb: c\n",
        "a list": "- a\n- b\n",
        "a template": "__use_yte__: true\nname: ?str(1)\n",
    }.items():
        for file in ("tiny.yaml", "machines/box.yaml"):
            yield name, file, lambda path, text=text: path.write_text(path.read_text() + text)
    for name, edit in {
        "a doubled column": lambda head, row: (f"{head}\tnodes", f"{row}\t1"),
        "an unknown column": lambda head, row: (f"{head}\tspeed", f"{row}\t1"),
        "a cell of 200,000 letters": lambda head, row: (head, f"{row}{'x' * 200_000}"),
        "a quote that nobody closed": lambda head, row: (head, f'"{row}'),
        "too many cells": lambda head, row: (head, f"{row}\t\t\t1"),
        "5,000 digits": lambda head, row: (head, row.replace("\t1\t", f"\t{DIGITS}\t", 1)),
        "inf": lambda head, row: (head, row.replace("\t1\t", "\tinf\t", 1)),
        "other digits": lambda head, row: (head, row.replace("\t1\t", "\t١\t", 1)),
        "the same row twice": lambda head, row: (head, f"{row}\n{row}"),
        "commas": lambda head, row: (head.replace("\t", ","), row.replace("\t", ",")),
    }.items():
        yield name, TABLES[0], partial(_edit_table, edit)


def _edit_table(edit: Callable[[str, str], tuple[str, str]], path: Path) -> None:
    head, row, *rest = path.read_text().splitlines()
    path.write_text("\n".join([*edit(head, row), *rest]) + "\n")


def _changed_value(config: Path, random_numbers: random.Random) -> tuple[str, str, Damage]:
    """Return a file of settings in which one value, drawn by chance, is an odd one."""
    file = random_numbers.choice(FILES)
    places = list(_places(yaml.safe_load((config / file).read_text())))
    place, value = random_numbers.choice(places), random_numbers.choice(ODD_VALUES)

    def change(path: Path) -> None:
        data = yaml.safe_load(path.read_text())
        inner = data
        for key in place[:-1]:
            inner = inner[key]
        inner[place[-1]] = "ODD"
        # The text of the odd value, not its meaning: PyYAML would write another one.
        path.write_text(yaml.safe_dump(data).replace("ODD", value, 1))

    return f"{'.'.join(map(str, place))}: {value[:30]}", file, change


def _places(data: Any, above: tuple[object, ...] = ()) -> Iterator[tuple[Any, ...]]:
    pairs = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in pairs:
        yield (*above, key)
        yield from _places(value, (*above, key))


def _try_both(tally: Tally, folder: Path, what: str, *, opened_first: bool) -> None:
    """Compare `hpcai check` with a dry run of the workflow: both refuse in a clear sentence, or both take it."""
    study = folder / "config/tiny.yaml"
    check = call_apart(partial(_hpcai, "check", str(study)), limit_s=LIMIT_S, memory_bytes=6 << 30)
    if _is_bad(tally, "hpcai check", what, check):
        return
    project = Project(folder / "work", study=study)
    project.directory.mkdir(exist_ok=True)
    if opened_first:
        words = ["run", "-n", "--snakefile", str(project.root / "Snakefile"), "--directory", str(project.directory)]
        words += ["--workflow-profile", str(project.root / "profiles/default"), "--configfile", str(study)]
        words += ["--config", f"config_dir={study.parent}", "--"]
        plan = call_apart(partial(_hpcai, *words), limit_s=LIMIT_S)
        name = "hpcai run -n"
    else:
        plan, name = call_apart(partial(_dry_run, project), limit_s=LIMIT_S), "snakemake -n"
    if _is_bad(tally, name, what, plan):
        return
    if opened_first and not what.endswith(UNREADABLE):
        _let_snakemake_read(tally, project, what, refused=bool(check.value))
    same = (check.value == 0) == (plan.value == 0)
    words = f"hpcai check: {check.value}, {name}: {plan.value}: {check.output[-200:]} | {plan.output[-200:]}"
    tally.add(
        f"hpcai check = {name}", what, "noticed" if same and check.value else "harmless" if same else "silent", words
    )


def _let_snakemake_read(tally: Tally, project: Project, what: str, *, refused: bool) -> None:
    """Give a study to Snakemake itself, which reads it before our workflow can: what we refuse is not taken."""
    plan = call_apart(partial(_dry_run, project), limit_s=LIMIT_S)
    own = " in Snakemake's own words" if TRACEBACK.search(plan.output) else ""
    same = plan.ending == "returned" and bool(plan.value) == refused
    words = f"{plan.ending} {plan.value}: {plan.words} {plan.output[-300:]}"
    verdict: Verdict = "silent" if not same else "noticed" if refused else "harmless"
    tally.add("snakemake reads the study itself", f"{what}{own}", verdict, words)


def _is_bad(tally: Tally, way: str, what: str, outcome: Outcome) -> bool:
    """Note a call that hung, died, or ended with a traceback or without a word."""
    text = f"{outcome.words}\n{outcome.output}"
    if outcome.ending != "returned" or TRACEBACK.search(text):
        tally.add(way, what, "traceback", f"{outcome.ending}: {text}")
        return True
    if outcome.value not in {0, 1, 2, 3}:
        tally.add(way, what, "silent", f"status {outcome.value}: {text}")
        return True
    if outcome.value and not text.strip():
        tally.add(way, what, "silent", "an error without a word")
        return True
    return False


def _hpcai(*words: str) -> int:
    sys.argv = ["hpcai", *words]
    return main()


def _dry_run(project: Project) -> int:
    done = project.snakemake("--dry-run", "--quiet", "all")
    print(done.stdout)
    return done.returncode


def _put(path: Path, whole: bytes) -> None:
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    else:
        path.unlink(missing_ok=True)
    write_atomically(path, whole)


COMMANDS = Path(__file__).with_name("commands.txt")
"""What users may write by mistake, one command line to a line; words in capitals are files that are made for it."""


def _command_lines(tally: Tally, folder: Path) -> None:
    place = folder / "commands"
    place.mkdir()
    (place / "DIR").mkdir()
    os.mkfifo(place / "FIFO")
    (place / "ZERO").symlink_to("/dev/zero")
    (place / "BINARY").write_bytes(bytes(range(256)))
    (place / "POWER").write_text("timestamp,GPU0 [W]\n2026-01-01T00:00:00,1\n")
    for words in COMMANDS.read_text().splitlines():
        for name in ("OUT", "DIR"):
            shutil.rmtree(place / name, ignore_errors=True)
        (place / "DIR").mkdir()
        outcome = call_apart(partial(_in_folder, place, shlex.split(words)), limit_s=LIMIT_S, memory_bytes=6 << 30)
        if not _is_bad(tally, "command lines", words, outcome):
            refused = bool(outcome.value)
            tally.add("command lines", words, "noticed" if refused else "harmless", outcome.output)


def _in_folder(folder: Path, words: list[str]) -> int:
    os.chdir(folder)
    return _hpcai(*words)
