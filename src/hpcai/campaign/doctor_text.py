"""Format the doctor's findings as text and as plain values."""

import socket
from collections.abc import Iterator, Sequence

from hpcai.campaign.doctor import Diagnosis, problems_of
from hpcai.campaign.next_step import next_step
from hpcai.campaign.run_folders import NAMED
from hpcai.campaign.states import STATES, RunState
from hpcai.campaign.surroundings import Space
from hpcai.core.messages import Message
from hpcai.core.text import say_bytes
from hpcai.core.text_table import say_table

LINES = 40
"""Number of run lines printed; the JSON file has all."""
NAMES = 8
"""Number of runs named in one line."""
CACHED = Message(
    "doctor_text.cached",
    "Served from a cache, not from storage: {runs} ({names}); they say nothing of storage (columns input_from and "
    "staging_from of the table runs)",
)


def say_diagnosis(diagnosis: Diagnosis) -> str:
    """Return the findings: counts, runs that are not finished, problems, and finally the next command."""
    knowledge, step = diagnosis.knowledge, next_step(diagnosis)
    study = f"study {knowledge.planned.study}, " if knowledge.planned else ""
    lines = [f"{knowledge.results}: {study}{knowledge.source}", "", _table(diagnosis)]
    lines += ["", *(say_space(space) for space in diagnosis.around.spaces)]
    lines += _gpu_lines(diagnosis)
    if runs := list(_run_lines(diagnosis.every_state)):
        hidden = [f"  ... and {len(runs) - LINES} more lines: --json FILE has all"] if len(runs) > LINES else []
        lines += ["", "Not simply finished:", *runs[:LINES], *hidden]
    lines += _other_lines(diagnosis)
    if problems := problems_of(diagnosis):
        lines += ["", "Problems:"]
        lines += [f"  - {problem.what}\n    -> {problem.remedy}" for problem in problems[:LINES]]
    lines += ["", *([f"Choice: {step.choice}"] if step.choice else [])]
    return "\n".join([*lines, f"Next: {step.why}", *([f"  {step.command}"] if step.command else [])])


def _table(diagnosis: Diagnosis) -> str:
    """Return the counts: a row per stage, a column per state that occurs."""
    counts = diagnosis.counts
    states = [state for state in STATES if any(own[state] for own in counts.values())]
    heading = "planned" if diagnosis.knowledge.planned else "found"
    numbers = {stage: (own.total(), *(own[state] for state in states)) for stage, own in counts.items()}
    rows = [[NAMED[stage], *(str(number or "-") for number in found)] for stage, found in numbers.items()]
    return say_table(("", heading, *states), rows)


def _gpu_lines(diagnosis: Diagnosis) -> list[str]:
    if not diagnosis.gpu_site:
        return []
    rows = [[part.name, part.state, part.found, part.needed] for part in diagnosis.gpu_site]
    return [
        "",
        f"For accelerators, on {socket.gethostname()}:",
        say_table(("", "state", "found", "needed"), rows, kinds="kkww"),
    ]


def say_space(space: Space) -> str:
    """Describe the free space at one location."""
    if space.free_bytes is None:
        return f"free space of {space.what} ({space.place}): not known, {space.reason}"
    return f"free space of {space.what} ({space.place}): {say_bytes(space.free_bytes)}; quotas are not included"


def _run_lines(states: Sequence[RunState]) -> Iterator[str]:
    """Yield one line for all repetitions of a point, or all profiles of a kind, with equal state and reason."""
    shown = [one for one in states if one.state != "finished" or one.outcome == "not measured"]
    groups: dict[tuple[str, ...], list[RunState]] = {}
    for one in sorted(shown, key=lambda one: STATES.index(one.state)):
        groups.setdefault((one.state, one.outcome, _family(one), one.reason), []).append(one)
    for (state, outcome, family, reason), group in groups.items():
        what = f"{state}, {outcome.replace('_', ' ')}" if outcome and state != "damaged" else state
        yield f"  {what}: {family}{_named(group)}" + (f": {reason}" if reason else "")


def _family(one: RunState) -> str:
    """Return the group that a run is listed with: its point; for a profile, all of its kind that lack the same tool."""
    return "/".join(one.folder.name.split("/")[:2]) if one.outcome == "not measured" else one.folder.point


def _named(group: Sequence[RunState]) -> str:
    if group[0].folder.stage == "weak":
        return ""
    if len(group) > 1 and group[0].outcome == "not measured":
        return f" ({len(group)} profiles)"
    names = [one.folder.name.removeprefix(f"{_family(one)}/") for one in group]
    return " " + " ".join(names[:NAMES]) + (f" ... {names[-1]}" if len(names) > NAMES else "")


def _other_lines(diagnosis: Diagnosis) -> list[str]:
    lines = []
    if diagnosis.not_planned and diagnosis.knowledge.planned:
        names = ", ".join(one.folder.name for one in diagnosis.not_planned[:3])
        more = ", ..." if len(diagnosis.not_planned) > 3 else ""
        lines.append(f"Not in the study, ignored: {len(diagnosis.not_planned)} ({names}{more})")
    if cached := [one for one in diagnosis.every_state if one.is_cached]:
        names = ", ".join(one.folder.name for one in cached[:3]) + (", ..." if len(cached) > 3 else "")
        lines.append(CACHED(runs=len(cached), names=names))
    if diagnosis.discarded:
        lines.append(f"Set aside with `hpcai discard`: {len(diagnosis.discarded)}")
    if diagnosis.around.queue:
        jobs = ", ".join(f"{job.job_id} {job.state}" for job in diagnosis.around.queue[:3])
        more = ", ..." if len(diagnosis.around.queue) > 3 else ""
        lines.append(f"Jobs of this folder in Slurm's queue: {len(diagnosis.around.queue)} ({jobs}{more})")
    return ["", *lines] if lines else []


def diagnosis_as_dict(diagnosis: Diagnosis) -> dict[str, object]:
    """Return all findings as plain values."""
    step, around = next_step(diagnosis), diagnosis.around
    return {
        "results": str(diagnosis.knowledge.results),
        "planned": diagnosis.knowledge.source,
        "exit_status": diagnosis.exit_status,
        "counts": {stage: dict(own) for stage, own in diagnosis.counts.items()},
        "runs": [_as_dict(one, planned=True) for one in diagnosis.states]
        + [_as_dict(one, planned=False) for one in diagnosis.not_planned],
        "discarded": list(diagnosis.discarded),
        "controller": around.controller,
        "queue": [vars(job) for job in around.queue] if around.queue is not None else None,
        "missing_data": list(around.missing_data),
        "spaces": [vars(space) for space in around.spaces],
        "gpu_site": [vars(part) for part in diagnosis.gpu_site],
        "failures": [vars(failure) for failure in around.failures],
        "lost_points": [vars(lost) for lost in diagnosis.lost_points],
        "problems": [vars(problem) for problem in problems_of(diagnosis)],
        "next": vars(step),
    }


def _as_dict(one: RunState, *, planned: bool) -> dict[str, object]:
    facts = {"folder": one.folder.name, "planned": planned, "state": one.state, "outcome": one.outcome}
    return {
        **facts,
        "is_cached": one.is_cached,
        "reason": one.reason,
        "wall_s": one.wall_s,
        "leftovers": list(one.leftovers),
    }
