"""Format the estimate of a campaign for a terminal, at most 100 columns wide."""

from collections.abc import Callable
from textwrap import fill

from hpcai.campaign.estimate import Estimate, WallTime
from hpcai.campaign.estimate_data import Amount
from hpcai.core.text import NOT_KNOWN, say_bytes, say_count, say_short, say_whole
from hpcai.core.text_table import WIDTH, say_table

STAGE_HEADS = (
    "stage", "jobs", "done", "nodes", "limit [node-h]", "limit [core-h]", "expected [node-h]", "known jobs",
)  # fmt: skip
DATA_HEADS = ("dataset", "samples", "archives", "shards", "files", "shard files")
MARKS = {"measured": "", "declared": "", "modelled": "~ ", "upper bound": "≤ "}
LEGEND = "~ modelled, ≤ upper bound, no mark: measured or declared. `--json` has the source of each number."


def say_estimate(estimate: Estimate) -> str:
    """Return tables of jobs, wall time, storage and files, and warnings."""
    parts = [
        f"study {estimate.study} on {estimate.machine}: {say_count(estimate.nodes, 'node')} of "
        f"{say_count(estimate.cores_per_node, 'core')}; node-hours, times and files cover the remaining work",
        _say_stages(estimate),
        "\n".join(_say_wall(one) for one in estimate.wall_times),
        _say_storage(estimate),
        say_table(("files created", "number"), [(one.cause, _say(one.files, say_whole)) for one in estimate.files]),
        "\n".join(_wrap(f"! {warning}") for warning in estimate.warnings),
    ]
    return "\n\n".join(parts)


def _say_stages(estimate: Estimate) -> str:
    rows = [
        (
            one.stage,
            str(one.jobs),
            str(one.done),
            str(one.largest_nodes),
            *(_say(amount, say_short) for amount in (one.limit_node_hours, one.limit_core_hours)),
            _say(one.expected_node_hours, say_short),
            f"{one.known} of {one.jobs - one.done}",
        )
        for one in estimate.stages
    ]
    repeats = estimate.disturbed_repeats
    often = f", and is disturbed and repeated {say_count(repeats, 'time')}" if repeats else ""
    notes = (
        f"nodes: of the largest job. limit: each run takes limits.run_s{often} (declared); a batch job's own limit "
        "adds the time before and after the run. expected: from medians of equal runs of earlier results, only for "
        "the jobs of the last column. predictions: measured only by `snakemake predict`, after the report. Tables, "
        "figures and reports are not counted: `snakemake -n` lists them."
    )
    return f"{say_table(STAGE_HEADS, rows)}\n{_wrap(notes)}"


def _say_wall(wall: WallTime) -> str:
    head = "jobs that train, one after another" if wall.width == 1 else f"jobs that train, {wall.width} at a time"
    limit, expected = (_say(amount, _hours) for amount in (wall.limit_s, wall.expected_s))
    told = f" ({wall.expected_s.source})"
    return _wrap(f"{head}: {limit} by their limits; expected {expected}{told}; waiting in a queue not counted")


def _say_storage(estimate: Estimate) -> str:
    rows = [
        (
            one.name,
            *(_say(amount, say_bytes) for amount in (one.sample_bytes, one.archive_bytes, one.shard_bytes)),
            *(_say(amount, say_whole) for amount in (one.sample_files, one.shard_files)),
        )
        for one in estimate.datasets
    ]
    scratch = [(name, _say(amount, say_bytes), amount.source) for name, amount in estimate.scratch]
    shared = (
        f"results: {_say(estimate.results_bytes, say_bytes)} ({estimate.results_bytes.source}); "
        f"free on the shared file system: {_say(estimate.free_bytes, say_bytes)}"
    )
    parts = [say_table(DATA_HEADS, rows), LEGEND, *_unknown_sizes(estimate), _wrap(shared)]
    if scratch:
        parts += ["", say_table(("node-local scratch, fullest node", "bytes", "staged"), scratch)]
    return "\n".join(parts)


def _say(amount: Amount, words: Callable[[float], str]) -> str:
    return NOT_KNOWN if amount.value is None else f"{MARKS[amount.method]}{words(amount.value)}"


def _hours(value_s: float) -> str:
    return f"{say_short(value_s / 3600)} h"


def _wrap(text: str) -> str:
    return fill(text, WIDTH)


def _unknown_sizes(estimate: Estimate) -> list[str]:
    """Return in one line why sizes are unknown, each reason once."""
    amounts = [amount for one in estimate.datasets for amount in (one.sample_bytes, one.archive_bytes)]
    reasons = dict.fromkeys(amount.source for amount in amounts if amount.value is None)
    return [_wrap(f"{NOT_KNOWN}: {'; '.join(reasons)}")] if reasons else []
