"""Write a submission atomically: the tree, the results of the checks, and the list of all files."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hpcai.core.errors import ConfigError
from hpcai.mlperf_hpc.submission.checks import check_tree
from hpcai.mlperf_hpc.submission.code import find_code
from hpcai.mlperf_hpc.submission.collect import collect
from hpcai.mlperf_hpc.submission.model import OpenPoint, Problem, Request, Submission
from hpcai.mlperf_hpc.submission.package_check import CheckerText
from hpcai.mlperf_hpc.submission.tree import all_open_points, tree_files, write_files
from hpcai.records.folders import write_manifest, written_whole

CHECKS = "checks.json"
MADE_BY = "hpcai mlperf submit"


@dataclass(frozen=True)
class Written:
    """A written submission with the results of its checks."""

    submission: Submission
    package: CheckerText
    problems: tuple[Problem, ...]
    open_points: tuple[OpenPoint, ...]

    @property
    def failures(self) -> tuple[Problem, ...]:
        """The problems that would cause its rejection."""
        return tuple(problem for problem in self.problems if problem.severity == "failure")


def write_submission(request: Request) -> Written:
    """Write ``output/ORG/{systems,benchmarks,results}``, ``output/checks.json`` and ``output/MANIFEST.sha256``.

    Equal runs give equal bytes.

    Raises
    ------
    ConfigError
        If the output is anything other than an earlier submission, or there is nothing to submit.
    RecordError
        If a record is damaged, or a log differs from the one listed in its record.
    """
    _require_own(request.output)
    submission = collect(request)
    code = find_code(submission, request.results)
    open_points = tuple(sorted(all_open_points(submission)))
    with written_whole(request.output, marker=CHECKS) as folder:
        write_files(tree_files(submission, code), folder)
        package, problems = check_tree(submission, request.results, folder)
        written = Written(submission, package, tuple(sorted({*problems, *code.problems})), open_points)
        (folder / CHECKS).write_text(_json(_described(written)), encoding="utf-8")
        write_manifest(folder)
    return written


def say_written(written: Written, output: Path) -> str:
    """Summarise the written submission and its checks in lines of text."""
    submission = written.submission
    lines = [
        f"{output}: submission of {submission.org}, {submission.division} division, rule set {submission.rule_set}"
    ]
    for system in submission.systems:
        for result in system.results:
            pruned = f", {len(result.pruned)} pruned" if result.pruned else ""
            lines.append(f"  {system.name}: {result.scaling} {result.benchmark}, {len(result.runs)} runs{pruned}")
    lines.append(f"package checker: {written.package.conclusion}")
    for title, severity in (("failures", "failure"), ("warnings", "warning")):
        own = [problem for problem in written.problems if problem.severity == severity]
        lines.append(f"{len(own)} {title}")
        for problem in own:
            why = f" [{problem.reason}]" if problem.reason else ""
            lines.append(f"  {problem.check}: {problem.place or 'whole submission'}: {problem.message}{why}")
    lines.append(f"{len(written.open_points)} fields of system files to fill in by hand (see checks.json)")
    return "\n".join(lines)


def _require_own(output: Path) -> None:
    """Refuse to replace anything that this program did not write."""
    if output.is_symlink() or (output.exists() and not output.is_dir()):
        raise ConfigError(f"{output}: found a file or a link, expected a folder to write; choose another --output")
    if not output.exists() or not any(output.iterdir()):
        return
    try:
        made_by = json.loads((output / CHECKS).read_text(encoding="utf-8")).get("made_by")
    except (OSError, ValueError, AttributeError):
        made_by = None
    if made_by != MADE_BY:
        raise ConfigError(
            f"{output}: found a folder that is not an earlier submission of this program (no {CHECKS} of it), expected "
            "none; choose another --output"
        )


def _described(written: Written) -> dict[str, Any]:
    submission = written.submission
    return {
        "made_by": MADE_BY,
        "organisation": submission.org,
        "division": submission.division,
        "rule_set": submission.rule_set,
        "passes": not written.failures,
        "package_checker": {"passes": written.package.passes, "conclusion": written.package.conclusion},
        "failures": _rows(written.failures),
        "warnings": _rows([problem for problem in written.problems if problem.severity == "warning"]),
        "open_points": _rows(written.open_points),
        "skipped": list(submission.skipped),
    }


def _rows(items: Sequence[Problem | OpenPoint]) -> list[dict[str, Any]]:
    return [asdict(item) for item in items]


def _json(value: object) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"
