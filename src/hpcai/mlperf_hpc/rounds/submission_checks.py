"""What the logs of a submission say unlike its folder or its system file: one repair for all logs of a submission."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from hpcai.mlperf_hpc.rounds.model import LoggedRun, Repair, Submission
from hpcai.mlperf_hpc.rounds.systems import is_placeholder, whole_number


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
