"""Hostile files given to everything that reads files from outside, each call in a process of its own."""

import os
import random
import resource
import signal
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import yaml
from attack.apart import call_apart
from attack.hostile_files import CANARY, make
from attack.tally import Tally
from workflow_project import ROOT

from hpcai.config.load import load_study_file
from hpcai.config.plan_file import read_plan
from hpcai.config.reading import Problems
from hpcai.config.run_table import read_rows
from hpcai.config.runs import RunRow
from hpcai.core.errors import HpcaiError
from hpcai.core.table_files import read_parquet
from hpcai.data.archives import UnpackLimits, unpack_archive
from hpcai.data.catalogue import read_catalogue
from hpcai.data.manifest import read_manifest
from hpcai.data.pack import read_pack
from hpcai.data.registry import data_module
from hpcai.machine.ceilings.sampling import CeilingReport
from hpcai.metrics.run_tables import write_tables
from hpcai.mlperf_hpc.analysis.results_folder import read_rounds, write_import
from hpcai.parsers.registry import MODULE_OF, read_artefact, reader_of
from hpcai.records.files import read_part, read_record
from hpcai.records.run import Capture
from hpcai.records.weak import WeakGroup
from hpcai.report.figures import read_drawing
from hpcai.report.material import read_json
from hpcai.workloads.registry import WORKLOADS

Reader = Callable[[Path], object]
CALL_LIMIT_S, FILE_LIMIT_S = 30, 240
MOST_MEMORY_BYTES, ADDRESSES_BYTES = 1 << 30, 8 << 30
"""What a call may take of memory; and where it is stopped, so that the machine lives on."""
ACCEPTED = "accepted"
HARMLESS = {
    ("read_json", "doubled keys"), ("read_json", "lone surrogates"), ("read_json", "numbers that are none"),
    ("read_json", "link to itself"), ("read_json", "link to nothing"), ("drawing", "*"),
}  # fmt: skip
"""What a reader rightly takes: plain JSON of any content, and a drawing without seal, are the caller's to judge; what
does not exist is absent."""


def attack(folder: Path, random_numbers: random.Random, count: int) -> Tally:
    """Give each hostile file to each reader.

    Parameters
    ----------
    folder
        An empty folder.
    random_numbers
        Which of the readers of tools get a file, and what is in random ones.
    count
        So many readers of tools for each file.
    """
    tally = Tally("hostile files")
    for name, path in make(folder, random_numbers):
        chosen = random_numbers.sample(sorted(set(MODULE_OF) - {"tensorflow-profile"}), min(count, len(MODULE_OF) - 1))
        for group, readers in readers_of(chosen).items():
            found = call_apart(partial(read_all, readers, path), limit_s=FILE_LIMIT_S, memory_bytes=ADDRESSES_BYTES)
            if found.ending != "returned":
                tally.add(group, f"{name}: {found.ending}", "traceback", f"{found.words} {found.output}")
                continue
            for reader, ending, words in found.value:
                _note(tally, group, (reader, name), ending, words)
            _look_outside(tally, group, name, path.parent)
        _remove(path)
    return tally


def readers_of(tools: list[str]) -> dict[str, Mapping[str, Reader]]:
    return {
        "tools' output": {"any": read_artefact, **{name: reader_of(name).read for name in tools}},
        "data preparation": {
            **{name: _examiner(name) for name in WORKLOADS}, "tar": _unpacked("tar"), "tgz": _unpacked("tgz"),
        },
        "published rounds": {
            "alone": _import, "as a log": _import_as("results/sys/cosmoflow/result_0.txt"),
            "as a system": _import_as("systems/sys.json"),
        },
        "results": {
            "record": read_record, "capture": partial(read_part, Capture), "group": partial(read_part, WeakGroup),
            "ceiling": partial(read_part, CeilingReport), "manifest": read_manifest, "pack": read_pack,
            "plan": read_plan, "table": read_parquet, "read_json": read_json, "drawing": read_drawing,
        },
        "settings": {"study": load_study_file, "runs": _rows, "datasets": read_catalogue},
    }  # fmt: skip


def _examiner(workload: str) -> Reader:
    files = {path: yaml.safe_load(path.read_text()) for path in (ROOT / "tests/config/benchmarks").glob("*.yaml")}
    data = next(content["data"] for content in files.values() if content["workload"] == workload)
    module = data_module(workload, data)
    # Years of the extreme weather are known by their names.
    return _placed("climo_2000.h5", module.examine) if workload == "extreme_weather" else module.examine


def _unpacked(form: Any) -> Reader:
    def unpack(path: Path) -> None:
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            unpack_archive(path, Path(folder), form, UnpackLimits(content_bytes=1 << 26, files=100))

    return unpack


def _import(path: Path) -> object:
    """Import rounds as `hpcai mlperf import` does; what was repaired or left out counts as noticed."""
    rounds = read_rounds([path])
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        write_import(rounds, Path(folder, "out"), write_tables)
    runs = [run for checked in rounds for submission in checked.round.submissions for run in submission.runs]
    said = [repair for place in (*(checked.round for checked in rounds), *runs) for repair in place.repairs]
    if said or not runs:
        raise HpcaiError(f"said: {said[:1] or 'no run'}")
    return rounds


def _import_as(name: str) -> Reader:
    return _placed(f"hpc_results_v3.0/closed/org/{name}", lambda path: _import(_above(path, "hpc_results_v3.0")))


def _above(path: Path, name: str) -> Path:
    return next(folder for folder in path.parents if folder.name == name)


def _placed(name: str, reader: Reader) -> Reader:
    """Return a reader that finds a file under a name of its own."""

    def place(path: Path) -> object:
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            target = Path(folder, name)
            target.parent.mkdir(parents=True, exist_ok=True)
            os.rename(path, target)
            try:
                return reader(target)
            finally:
                os.rename(target, path)

    return place


def _rows(path: Path) -> object:
    problems = Problems()
    rows = read_rows(path, RunRow, problems)
    problems.raise_if_any()
    return rows


def read_all(readers: Mapping[str, Reader], path: Path) -> list[tuple[str, str, str]]:
    """Call one reader after the other in this process; return of each how it ended, and its words."""
    signal.signal(signal.SIGALRM, _give_up)
    found = []
    for name, reader in readers.items():
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        signal.alarm(CALL_LIMIT_S)
        try:
            value = reader(path)
            ending, words = ACCEPTED, str(value)[:200]
        except HpcaiError as error:
            ending, words = "refused", str(error)[:300]
        except (Exception, _NoEndError) as error:
            ending, words = "traceback", f"{type(error).__name__}: {str(error)[:300]}"
        finally:
            signal.alarm(0)
        taken = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
        if taken > MOST_MEMORY_BYTES:
            ending, words = "greedy", f"took {taken} bytes of memory; {words}"
        found.append((name, ending, words))
    return found


class _NoEndError(BaseException):
    """No error that a reader could take for one of its file."""


def _give_up(_: int, __: FrameType | None) -> NoReturn:
    raise _NoEndError(f"no end after {CALL_LIMIT_S} s")


def _note(tally: Tally, group: str, case: tuple[str, str], ending: str, words: str) -> None:
    reader, name = case
    what = f"{name}, read as {reader}"
    if ending == "refused":
        tally.add(group, what, "noticed", words)
    elif ending == ACCEPTED and {case, (reader, "*")} & HARMLESS:
        tally.add(group, what, "harmless", words)
    else:
        tally.add(group, what, "traceback" if ending == "traceback" else "silent", f"{ending}: {words}")


def _look_outside(tally: Tally, group: str, name: str, folder: Path) -> None:
    places = [folder / CANARY, folder.parent / CANARY, Path(f"/tmp/hpcai-attack-{CANARY}"), Path.cwd() / CANARY]
    for place in places:
        if place.exists():
            tally.add(group, f"{name}: {place} was written", "silent", "code ran, or a path led outside")
            place.unlink()


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    else:
        path.unlink(missing_ok=True)
