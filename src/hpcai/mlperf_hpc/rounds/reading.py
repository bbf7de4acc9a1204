"""A published result repository, a part of one, or an archive, as a round of submissions."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Generic, Literal, TypeVar

from hpcai.core.errors import ParseError
from hpcai.core.files import real_path
from hpcai.core.messages import Message
from hpcai.mlperf_hpc.rounds.archives import is_archive
from hpcai.mlperf_hpc.rounds.limits import Budget
from hpcai.mlperf_hpc.rounds.model import LoggedRun, Repair, Round, Submission, System
from hpcai.mlperf_hpc.rounds.pairing import number_in
from hpcai.mlperf_hpc.rounds.runs import read_run
from hpcai.mlperf_hpc.rounds.selection import Files, admit, fits
from hpcai.mlperf_hpc.rounds.sharing import read_logs
from hpcai.mlperf_hpc.rounds.source import read_files, read_start, require_text
from hpcai.mlperf_hpc.rounds.systems import is_placeholder, join_systems, read_system, whole_number
from hpcai.mlperf_hpc.rounds.texts import is_text, printable
from hpcai.mlperf_hpc.rounds.tree import (
    SCALING_FILE,
    Place,
    is_readme,
    is_system_file,
    is_wanted,
    name_of_round,
    place_of,
)
from hpcai.parsers.identify import describe
from hpcai.parsers.mllog import TOKEN, Mllog, parse_mllog

BAD_NAME = Message("reading.bad_name", "found the name {name!r} for a round, expected text that tables can hold")


def check_submission(submission: Submission) -> Iterator[Repair]:
    """Yield where the logs contradict the folder or the system file, and say nothing of the platform."""
    runs = [run for run in (*submission.runs, *submission.pruned) if run.settings]
    folder, system = submission.folder, submission.system
    for key, logged, expected in (
        ("submission_org", [run.org for run in runs], submission.org),
        ("submission_benchmark", [run.benchmark for run in runs], submission.benchmark),
    ):
        if expected:
            yield from _unlike(folder, key, logged, expected, f"the folder's name is taken: {expected}")
    if system and system.division:
        divisions = [run.division for run in runs]
        done = f"the system file's division is taken: {system.division}"
        yield from _unlike(folder, "submission_division", divisions, system.division, done)
    platforms = [run.platform for run in runs if is_placeholder(run.platform)]
    if platforms:
        found = f"{_counted(platforms)}, of {len(runs)} logs"
        yield Repair(folder, "submission_platform", "platform_placeholder", found, "the folder's name stands for it")
    yield from _check_size(submission, runs)


def _check_size(submission: Submission, runs: Sequence[LoggedRun]) -> Iterator[Repair]:
    """Yield logged sizes unlike those of the system file; an instance of weak scaling has a part of the nodes."""
    system = submission.system
    if system is None:
        return
    sizes = [("accelerators_per_node", system.accelerators_per_node)]
    if submission.scaling == "strong":
        sizes.insert(0, ("number_of_nodes", system.nodes))
    for key, expected in sizes:
        logged = [whole_number(run.settings.get(key)) for run in runs]
        said = [str(value) for value in logged if value is not None]
        if expected is not None:
            done = f"the system file's number is taken: {expected}"
            yield from _unlike(submission.folder, key, said, str(expected), done)
    if submission.scaling == "weak" and system.nodes is not None:
        nodes = [whole_number(run.settings.get("number_of_nodes")) for run in runs]
        larger = [str(value) for value in nodes if value is not None and value > system.nodes]
        if larger:
            found = f"{_counted(larger)}, of {len(runs)} logs; the whole system has {system.nodes}"
            done = "the system file's number is taken for the whole"
            yield Repair(submission.folder, "number_of_nodes", "number_of_nodes_differs", found, done)


def _unlike(folder: str, key: str, logged: Sequence[str], expected: str, done: str) -> Iterator[Repair]:
    wrong = [value for value in logged if value != expected]
    if wrong:
        kind = f"{key.removeprefix('submission_')}_differs"
        yield Repair(folder, key, kind, f"{_counted(wrong)}, of {len(logged)} logs", done)


def _counted(values: Iterable[str]) -> str:
    words = [f"{value or 'nothing'} in {count}" for value, count in Counter(values).most_common()]
    return ", ".join(words[:3]) + (", ..." if len(words) > 3 else "")


UNKNOWN = "unknown"


def name_places(logs: Sequence[tuple[Place, LoggedRun]], repairs: list[Repair]) -> list[Place]:
    """Return the places with their blanks filled by what most logs of the folder say of themselves; listed.

    In a tree without ``results``, a last folder that does not bear the benchmark's name is taken for the system's.
    """
    folders: dict[str, list[LoggedRun]] = {}
    for place, run in logs:
        folders.setdefault(place.folder, []).append(run)
    named: dict[str, Place] = {}
    for place, _ in logs:
        if place.folder not in named:
            named[place.folder] = _name(place, folders[place.folder], repairs)
    return [
        replace(place, org=name.org, system=name.system, benchmark=name.benchmark)
        for place, name in ((place, named[place.folder]) for place, _ in logs)
    ]


def _name(place: Place, runs: Sequence[LoggedRun], repairs: list[Repair]) -> Place:
    logged = _usual(run.benchmark for run in runs)
    benchmark, system = place.benchmark, place.system
    if not (place.org or place.scaling) and logged and benchmark != logged:
        benchmark, system = logged, system or benchmark
    named = replace(
        place,
        org=place.org or _usual(run.org for run in runs) or UNKNOWN,
        system=system or _usual(run.platform for run in runs) or UNKNOWN,
        benchmark=benchmark or logged or UNKNOWN,
    )
    fields = [key for key in ("org", "system", "benchmark") if getattr(named, key) != getattr(place, key)]
    if fields:
        done = ", ".join(f"{key} {getattr(named, key)}" for key in fields)
        found = f"the folders name no {' and no '.join(fields)}"
        repairs.append(Repair(place.folder, "tree", "named_by_logs", found, f"taken from logs and folder: {done}"))
    return named


def _usual(values: Iterable[str]) -> str:
    said = Counter(value for value in values if value)
    return said.most_common(1)[0][0] if said else ""


LARGEST_FACTOR = 100.0
"""Of scaling.json: the largest published penalty is 1.023."""
T = TypeVar("T")
Look = Callable[[str, Mllog], T]
"""Called with the path of a log below the source, and the log."""


@dataclass
class _Found(Generic[T]):
    """What was read so far, in any order."""

    around: Sequence[str]
    look: Look[T]
    runs: list[tuple[Place, LoggedRun]] = field(default_factory=list)
    seen: dict[str, T] = field(default_factory=dict)
    systems: list[System] = field(default_factory=list)
    factors: dict[str, float] = field(default_factory=dict)
    readme: str = ""
    repairs: list[Repair] = field(default_factory=list)

    def take(self, files: Files) -> Iterator[tuple[Place, bytes]]:
        """Take files for what their paths say, and yield the logs among them."""
        for path, content in files:
            if is_system_file(path):
                system = read_system(path, content, self.repairs)
                self.systems += [system] if system else []
            elif is_readme(path):
                self.readme = self.readme or content[:4096].decode("utf-8", "replace")
            elif PurePosixPath(path).name == SCALING_FILE:
                self._take_factor(path, content)
            elif place := place_of(path, self.around, self.repairs):
                yield place, content

    def take_logs(self, logs: Iterable[tuple[Place, bytes]]) -> None:
        for place, (run, seen) in read_logs(self._read_log, logs):
            self.runs.append((place, run))
            self.seen[place.path] = seen

    def _read_log(self, place: Place, content: bytes) -> tuple[LoggedRun, T]:
        """Read a log; this happens in other processes as well and must not change anything here."""
        log = parse_mllog(content, place.path)
        seen = self.look(place.path, log)
        run = read_run(log, place.path, place.number)
        if not log.events:  # the log's content, which read_run does not have, says more
            found = f"{describe(content[:65536])}, no event"
            repairs = tuple(replace(one, found=found) if one.kind == "no_events" else one for one in run.repairs)
            run = replace(run, repairs=repairs)
        return run, seen

    def _take_factor(self, path: str, content: bytes) -> None:
        try:
            fields = json.loads(content)
            factor = number_in(fields["scaling_factor"])
        except (ValueError, KeyError, TypeError, RecursionError):
            factor = None
        if factor is None or not 1 <= factor <= LARGEST_FACTOR:
            found = f"no scaling_factor from 1 to {LARGEST_FACTOR:g} in {content[:60]!r}"
            self.repairs.append(Repair(path, "scaling_factor", "scaling_unreadable", found, "no factor is applied"))
        else:
            self.factors[PurePosixPath(path).parent.as_posix()] = factor


def read_round(source: Path, *, name: str | None = None) -> Round:
    """Read a round, or a part of one; see :func:`visit_round`."""
    return visit_round(source, lambda _path, _log: None, name=name)[0]


def visit_round(source: Path, look: Look[T], *, name: str | None = None) -> tuple[Round, dict[str, T]]:
    """Read a round, or a part of one, and what others make of its logs, so that each log is parsed once.

    Parameters
    ----------
    source
        A result repository of any round, one organisation's folder, an ``ORG/results`` tree, a folder of
        ``result_N.txt``, a single log, or a tar (plain, gz, xz, bz2) or zip archive of one of them. An archive is read
        once, in its own order, and is not extracted. Links that lead out of it are not followed.
    look
        Called with the path below the source and the parsed log of every log. It returns what can be pickled, and
        changes nothing elsewhere: large sources are read by several processes
        (:func:`hpcai.mlperf_hpc.rounds.sharing.read_logs`).
    name
        Name of the round; by default what folders, archive or README say ("v0.7"), else the source's base name.

    Returns
    -------
    tuple
        The round, and what `look` returned for each log, by its path, in the order of reading.

    Raises
    ------
    ParseError
        If there is no such source, no log in it, more than one round, an archive that is damaged or cut off, a source
        larger than :mod:`hpcai.mlperf_hpc.rounds.limits` admit, or a name of it that is no text.
    """
    require_text(source)
    if name is not None and not is_text(name):
        raise ParseError(BAD_NAME(name=printable(name)))
    found = _read_source(source, look)
    if not found.runs and (source / "runs").is_dir():
        raise ParseError(
            f"{source}: found the results of a study, expected published logs; `hpcai mlperf submit {source} --output "
            "DIR` writes them as a submission and checks it, and the study's own report analyses them"
        )
    if not found.runs:
        raise ParseError(
            f"{source}: found no log, expected result_N.txt files below ORG/results/SYSTEM/[strong|weak/]BENCHMARK; "
            "name a result repository, a folder of one, a log, or an archive" + _said(found.repairs)
        )
    places = name_places(found.runs, found.repairs)
    title = name or name_of_round(source, (place.top for place in places), found.readme)
    submissions = _submissions(title, source, places, [run for _, run in found.runs], found)
    scaled = any(place.scaling for place in places)
    if scaled and not all(place.scaling for place in places):
        flat = sum(not place.scaling for place in places)
        words = f"{flat} of {len(places)} logs are neither below strong nor below weak"
        found.repairs.append(Repair(".", "tree", "layout_mixed", words, "taken as strong"))
    for submission in submissions:
        found.repairs += check_submission(submission)
    layout: Literal["flat", "scaled"] = "scaled" if scaled else "flat"
    systems = tuple(sorted(found.systems, key=lambda system: system.source))
    return Round(title, str(source), layout, submissions, systems, tuple(found.repairs)), found.seen


def _read_source(source: Path, look: Look[T]) -> _Found[T]:
    try:
        single = source.is_file() and not is_archive(source)
    except OSError as error:
        raise ParseError(f"{source}: {error.strerror}, expected a result repository, a log or an archive") from error
    if not source.exists():
        raise ParseError(f"{source}: no such file or folder, expected a result repository, a log or an archive")
    if not (single or source.is_dir() or source.is_file()):
        raise ParseError(f"{source}: found neither a file nor a folder, expected a result repository or an archive")
    if single:
        return _read_single(source, look)
    found = _Found(real_path(source).parts if source.is_dir() else (), look)
    found.take_logs(found.take(read_files(source, is_wanted, found.repairs)))
    return found


def _read_single(source: Path, look: Look[T]) -> _Found[T]:
    """Read one log, whatever its name."""
    found = _Found(real_path(source).parts[:-1], look)
    unnumbered: list[Repair] = []
    place = place_of(source.name, found.around, unnumbered)
    if place is None:
        found.repairs.append(Repair(source.name, "name", "result_without_number", source.name, "taken as number 1"))
        place = Place(source.name, 1, ".", "", "", "", "", ".", False)
    try:
        content = read_start(source)
    except OSError as error:
        raise ParseError(f"{source}: {error.strerror}, expected an MLPerf log that can be read") from error
    if TOKEN.encode() not in content:
        raise ParseError(
            f"{source}: found {describe(content[:65536])}, expected an MLPerf log, a result repository, or a .tar, "
            ".tar.gz, .tar.xz, .tar.bz2 or .zip of one"
        )
    left_out: list[Repair] = []
    if fits(source.name, len(content), left_out):
        found.take_logs((place, part) for _, part in admit(source.name, content, Budget(source), left_out))
    found.repairs += left_out
    return found


def _said(repairs: Sequence[Repair]) -> str:
    words = [f"{one.source}: {one.found}" for one in repairs[:3]]
    return f" (left out: {'; '.join(words)})" if words else ""


def _submissions(
    origin: str, source: Path, places: Sequence[Place], runs: Sequence[LoggedRun], found: _Found[T]
) -> tuple[Submission, ...]:
    joined = join_systems(places, found.systems, found.repairs)
    groups: dict[tuple[str, str, str, str], list[tuple[Place, LoggedRun]]] = {}
    for place, run in zip(places, runs, strict=True):
        key = (place.benchmark, place.org, place.system, place.scaling)
        groups.setdefault(key, []).append((place, run))
    submissions = []
    for key, members in sorted(groups.items()):
        folders = sorted({place.folder for place, _ in members})
        if len(folders) > 1:
            raise ParseError(
                f"{source}: found {'/'.join(part for part in key if part)} in {len(folders)} folders ({folders[0]}, "
                f"{folders[1]}), expected one round; name one of the rounds or organisations that it holds"
            )
        submissions.append(_submission(origin, members, joined.get((members[0][0].top, members[0][0].system)), found))
    return tuple(submissions)


def _submission(
    origin: str, members: Sequence[tuple[Place, LoggedRun]], system: System | None, found: _Found[T]
) -> Submission:
    place = members[0][0]
    found.repairs += _duplicates(members)
    return Submission(
        origin=origin,
        method="published",
        org=place.org,
        system_name=place.system,
        folder=place.folder,
        benchmark=place.benchmark,
        scaling="weak" if place.scaling == "weak" else "strong",
        runs=_by_number(members, pruned=False),
        pruned=_by_number(members, pruned=True),
        system=system,
        scaling_factor=found.factors.get(place.folder),
    )


def _by_number(members: Iterable[tuple[Place, LoggedRun]], *, pruned: bool) -> tuple[LoggedRun, ...]:
    runs = [run for place, run in members if place.pruned is pruned]
    return tuple(sorted(runs, key=lambda run: (run.number, run.source)))


def _duplicates(members: Sequence[tuple[Place, LoggedRun]]) -> list[Repair]:
    """Return numbers that several logs of one folder have, such as result_1 and result_01."""
    sources: dict[tuple[bool, int], list[str]] = {}
    for place, run in members:
        sources.setdefault((place.pruned, place.number), []).append(PurePosixPath(run.source).name)
    done = "each counted as a run of its own"
    return [
        Repair(members[0][0].folder, f"number {number}", "number_twice", ", ".join(sorted(names)), done)
        for (_, number), names in sources.items()
        if len(names) > 1
    ]
