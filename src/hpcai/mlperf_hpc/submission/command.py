"""``hpcai mlperf submit``: own runs as a submission tree, with everything that its checks found."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hpcai.mlperf_hpc.submission.write import Written

PASSES, BAD_INPUT, FAILS = 0, 1, 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.description = (
        "Write the runs of a finished study as the tree that MLPerf HPC asks for, and check it with the official "
        "package checker. Exit status: 0 nothing fails, 1 bad input, 2 the tree was written, but fails checks."
    )
    parser.add_argument("results", type=Path, help="results folder of a study, such as results")
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="folder to write")
    parser.add_argument("--org", help="submitting organisation (default: that of the study)")
    parser.add_argument("--system", help="first part of the systems' names (default: the machine's name)")
    parser.add_argument(
        "--benchmark", action="append", default=[], metavar="NAME", help="benchmark file or folder, may be repeated"
    )
    parser.add_argument("--scale", action="append", default=[], help="such as n2x4, may be repeated")
    parser.add_argument("--rule-set", choices=("1.0.0", "2.0.0", "3.0.0"), help="default: that of the study")


def run(arguments: argparse.Namespace) -> int:
    """Write the submission, say what fails, and return the exit status."""
    from hpcai.mlperf_hpc.submission.model import Request
    from hpcai.mlperf_hpc.submission.write import write_submission

    request = Request(
        results=arguments.results,
        output=arguments.output,
        org=arguments.org,
        system=arguments.system,
        benchmarks=tuple(arguments.benchmark),
        scales=tuple(arguments.scale),
        rule_set=arguments.rule_set,
    )
    written = write_submission(request)
    print(say_written(written, arguments.output))
    return FAILS if written.failures else PASSES


def say_written(written: "Written", output: Path) -> str:
    """Return what was written and what its checks found, in lines for people."""
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
