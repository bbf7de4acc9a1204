"""Read a published result repository, a part of one, or an archive as a round of submissions."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Literal, TypeVar

from hpcai.config.rounds import RESULTS, is_results_folder
from hpcai.core.errors import ParseError
from hpcai.core.messages import Message, at
from hpcai.mlperf_hpc.rounds.index import SourceIndex
from hpcai.mlperf_hpc.rounds.model import LoggedRun, Repair, Round, Submission, System
from hpcai.mlperf_hpc.rounds.runs import read_run
from hpcai.mlperf_hpc.rounds.sharing import read_logs
from hpcai.mlperf_hpc.rounds.systems import is_placeholder, join_systems, whole_number
from hpcai.mlperf_hpc.rounds.texts import is_text, printable
from hpcai.mlperf_hpc.rounds.tree import Place, name_of_round
from hpcai.parsers.identify import describe
from hpcai.parsers.mllog import Mllog, parse_mllog

BAD_NAME = Message("reading.bad_name", "found the name {name!r} for a round, expected text that tables can hold")
OF_A_STUDY = Message(
    "reading.of_a_study",
    "found the results of a study, expected published logs; `hpcai mlperf submit {source} --output DIR` writes them as "
    "a submission and checks it, and the study's own report analyses them",
)

OF_AN_IMPORT = Message("reading.of_an_import", "found no log, expected {expected}")


def check_submission(submission: Submission) -> Iterator[Repair]:
    """Yield contradictions between the logs and the folder or system file; the platform is not compared."""
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
        yield Repair(folder, "submission_platform", "platform_placeholder", found, "the folder's name is used instead")
    yield from _check_size(submission, runs)


def _check_size(submission: Submission, runs: Sequence[LoggedRun]) -> Iterator[Repair]:
    """Yield logged sizes that differ from the system file; a weak-scaling instance has only part of the nodes."""
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
    """Return the places with blanks filled from what most logs of the folder state; each such case is listed.

    In a tree without ``results``, a last folder not named like the benchmark is taken as the system's.
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


T = TypeVar("T")
Look = Callable[[str, Mllog], T]
"""Called with the path of a log below the source, and the log."""
Logs = Iterable[tuple[Place, bytes]]


def read_round(source: Path, *, name: str | None = None) -> Round:
    """Read a round, or a part of one; see :func:`visit_round`."""
    return visit_round(source, lambda _path, _log: None, name=name)[0]


def visit_round(source: Path, look: Look[T], *, name: str | None = None) -> tuple[Round, dict[str, T]]:
    """Read a round, or a part of one, with a callback per log, so that each log is parsed once.

    Parameters
    ----------
    source
        A result repository of any round, one organisation's folder, an ``ORG/results`` tree, a folder of
        ``result_N.txt``, a single log, or a tar (plain, gz, xz, bz2) or zip archive of one of them. An archive is read
        once, in its own order, and not extracted. Links out of the archive are not followed.
    look, name
        See :func:`visit_logs`.

    Returns
    -------
    tuple
        The round, and the result of `look` for each log, by its path, in the order of reading.

    Raises
    ------
    ParseError
        If the source does not exist, has no log or several rounds, is a damaged or truncated archive, exceeds
        :mod:`hpcai.mlperf_hpc.rounds.limits`, or contains a name that is not valid text.
    """
    index = SourceIndex(source)
    return visit_logs(index, index.logs(), look, name=name)


def visit_logs(index: SourceIndex, logs: Logs, look: Look[T], *, name: str | None = None) -> tuple[Round, dict[str, T]]:
    """Build a round from an index and its logs, with a callback per log.

    Parameters
    ----------
    index
        Index of the source.
    logs
        Logs of the index, streamed or held in memory.
    look
        Called with the path below the source and the parsed log of every log. Its result must be picklable, and it
        must have no side effects: several processes read large sources
        (:func:`hpcai.mlperf_hpc.rounds.sharing.read_logs`).
    name
        Name of the round; by default as in folders, archive or README ("v0.7"), otherwise the source's base name.

    Raises
    ------
    ParseError
        As :func:`visit_round`.
    """
    if name is not None and not is_text(name):
        raise ParseError(BAD_NAME(name=printable(name)))
    found = [(place, run, seen) for place, (run, seen) in read_logs(partial(_read_log, look), logs)]
    source, repairs = index.source, [*index.repairs]
    if not found:
        raise _no_log(source, repairs)
    places = name_places([(place, run) for place, run, _ in found], repairs)
    title = name or name_of_round(source, (place.top for place in places), index.readme)
    submissions = _submissions(title, list(zip(places, (run for _, run, _ in found), strict=True)), index, repairs)
    scaled = any(place.scaling for place in places)
    if scaled and not all(place.scaling for place in places):
        flat = sum(not place.scaling for place in places)
        words = f"{flat} of {len(places)} logs are neither below strong nor below weak"
        repairs.append(Repair(".", "tree", "layout_mixed", words, "taken as strong"))
    for submission in submissions:
        repairs += check_submission(submission)
    layout: Literal["flat", "scaled"] = "scaled" if scaled else "flat"
    systems = tuple(sorted(index.systems, key=lambda system: system.source))
    power = () if index.root else index.power_logs
    made = Round(title, str(source), layout, submissions, systems, tuple(repairs), index.sha256, power)
    return made, {place.path: seen for place, _, seen in found}


def _read_log(look: Look[T], place: Place, content: bytes) -> tuple[LoggedRun, T]:
    """Read a log; runs in other processes as well, so it must have no side effects."""
    log = parse_mllog(content, place.path)
    seen = look(place.path, log)
    run = read_run(log, place.path, place.number)
    if not log.events:  # only here is the log's content available
        found = f"{describe(content[:65536])}, no event"
        repairs = tuple(replace(one, found=found) if one.kind == "no_events" else one for one in run.repairs)
        run = replace(run, repairs=repairs)
    return run, seen


def _no_log(source: Path, repairs: Sequence[Repair]) -> ParseError:
    from hpcai.records.files import RUN_RECORDS  # rounds are read without the model of a record

    if any(source.glob(RUN_RECORDS)):
        return ParseError(at(str(source), OF_A_STUDY(source=source)))
    if is_results_folder(source):
        return ParseError(at(str(source), OF_AN_IMPORT(expected=RESULTS())))
    return ParseError(
        f"{source}: found no log, expected result_N.txt files below ORG/results/SYSTEM/[strong|weak/]BENCHMARK; "
        "name a result repository, a folder of one, a log, or an archive" + _said(repairs)
    )


def _said(repairs: Sequence[Repair]) -> str:
    words = [f"{one.source}: {one.found}" for one in repairs[:3]]
    return f" (left out: {'; '.join(words)})" if words else ""


def _submissions(
    origin: str, logs: Sequence[tuple[Place, LoggedRun]], index: SourceIndex, repairs: list[Repair]
) -> tuple[Submission, ...]:
    joined = join_systems((place for place, _ in logs), index.systems, repairs)
    groups: dict[tuple[str, str, str, str], list[tuple[Place, LoggedRun]]] = {}
    for place, run in logs:
        key = (place.benchmark, place.org, place.system, place.scaling)
        groups.setdefault(key, []).append((place, run))
    submissions = []
    for key, members in sorted(groups.items()):
        folders = sorted({place.folder for place, _ in members})
        if len(folders) > 1:
            raise ParseError(
                f"{index.source}: found {'/'.join(part for part in key if part)} in {len(folders)} folders "
                f"({folders[0]}, {folders[1]}), expected one round; name one of the rounds or organisations that it "
                "holds"
            )
        place = members[0][0]
        repairs += _duplicates(members)
        factor = index.factors.get(place.folder)
        submissions.append(_submission(origin, members, joined.get((place.top, place.system)), factor))
    return tuple(submissions)


def _submission(
    origin: str, members: Sequence[tuple[Place, LoggedRun]], system: System | None, factor: float | None
) -> Submission:
    place = members[0][0]
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
        scaling_factor=factor,
    )


def _by_number(members: Iterable[tuple[Place, LoggedRun]], *, pruned: bool) -> tuple[LoggedRun, ...]:
    runs = [run for place, run in members if place.pruned is pruned]
    return tuple(sorted(runs, key=lambda run: (run.number, run.source)))


def _duplicates(members: Sequence[tuple[Place, LoggedRun]]) -> list[Repair]:
    """Report numbers shared by several logs of a folder, such as result_1 and result_01."""
    sources: dict[tuple[bool, int], list[str]] = {}
    for place, run in members:
        sources.setdefault((place.pruned, place.number), []).append(PurePosixPath(run.source).name)
    done = "each counted as its own run"
    return [
        Repair(members[0][0].folder, f"number {number}", "number_twice", ", ".join(sorted(names)), done)
        for (_, number), names in sources.items()
        if len(names) > 1
    ]
