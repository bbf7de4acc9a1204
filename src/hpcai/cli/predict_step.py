"""The command ``hpcai predict step``: training steps of this machine from their blocks, next to measured ones."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from hpcai.cli.answers import plain_records, say_json
from hpcai.cli.options import Command, TableOrJson, argument, count, option, takes
from hpcai.core.disturbance import Tolerance
from hpcai.core.errors import ConfigError
from hpcai.core.messages import Message, at
from hpcai.core.text_table import say_table
from hpcai.predict.steps.accuracy import collect_block_steps, collect_block_times, print_steps, share_of_step
from hpcai.predict.steps.compute import ComputedStep, compute_at
from hpcai.predict.steps.report import NO_BLOCKS, BlocksReport, find_blocks
from hpcai.records.files import read_part

app = typer.Typer(rich_markup_mode=None, add_completion=False)
EXAMPLE = """\b
examples:
  hpcai predict step results
  hpcai predict step results --network resnet50_tiny --batch 96          # between two timed batches: interpolated
  hpcai predict step results/predict/laptop/step_blocks.json --network resnet50_tiny --output json"""
NOT_TIMED = Message(
    "predict_step.not_timed",
    "network {network!r} was not timed, expected one of {known}: measure it (study key predict.step_blocks)",
)
OTHER_BATCH = Message(
    "predict_step.other_batch",
    "{network} was timed at batches of {known} samples, not {batch}: only between two of them, with --network, is "
    "there an answer",
)
INTERPOLATED = Message(
    "predict_step.interpolated",
    "{network} at a batch of {batch} samples: {step_ms:.2f} ms, of which the update {update_ms:.2f}; interpolated, "
    "{basis}",
)
MACHINE_OF_A_FILE = Message(
    "predict_step.machine_of_a_file",
    "found option --machine {machine} beside a file, which has one machine's blocks: leave it out, or name the results",
)
MADE_BY = "`make predict` measures it (study key predict.step_blocks)"


@dataclass(frozen=True, kw_only=True)
class Question:
    """Options of `hpcai predict step`."""

    blocks: Annotated[Path, argument("RESULTS", "a study's results, or one machine's step_blocks.json")]
    network: Annotated[str | None, option("NAME", "one network or benchmark alone, with each of its blocks")] = None
    batch: Annotated[int | None, option("N", "at this batch alone; with --network", count)] = None
    machine: Annotated[str | None, option("NAME", "machine whose blocks are used, where several have some")] = None
    output: TableOrJson = "table"


@app.command(cls=Command, epilog=EXAMPLE)
@takes(Question)
def step(question: Question) -> None:
    """Predict training steps as the sum of their blocks, timed in a step's order, beside the same steps measured.

    A batch between two that were timed is interpolated. Nothing is fitted. Times are those of one thread, without
    input and gradient exchange.
    """
    file = _find_file(question)
    report = read_part(BlocksReport, file, MADE_BY)
    if between := _between(report, question):
        print(_say_between(between, question))
        return
    report, source = _choose(report, question), str(file)
    if question.output == "json":
        steps = collect_block_steps(report, Tolerance(), source)
        tables = {"steps": plain_records(steps), "blocks": plain_records(collect_block_times(report, source))}
        facts = report.model_dump(include={"processor", "software", "threads", "wall_s"})
        print(say_json({**facts, **tables}))
        return
    print(print_steps(report, Tolerance()))
    if question.network:
        print(f"\n{_say_blocks(report, source)}")


def _find_file(question: Question) -> Path:
    """Return the file of blocks itself, or that of a machine among the results of a study.

    Raises
    ------
    ConfigError
        If there is none, there are several machines, or one is named beside a file.
    """
    if not question.blocks.is_dir():
        if question.machine:
            raise ConfigError(at(str(question.blocks), MACHINE_OF_A_FILE(machine=question.machine)))
        return question.blocks
    found = find_blocks(question.blocks, question.machine)
    if found is None:
        raise ConfigError(at(str(question.blocks), NO_BLOCKS()))
    return found


def _between(report: BlocksReport, question: Question) -> ComputedStep | None:
    """Return the step at a batch between two that were timed in single precision; None if nothing lies between."""
    if question.network is None or question.batch is None:
        return None
    if any((one.network, one.batch) == (question.network, question.batch) for one in report.steps):
        return None
    found = compute_at(report.steps, question.network, question.batch)
    return None if found.reason else found


def _say_between(found: ComputedStep, question: Question) -> str:
    times = {"step_s": found.gradients_s + found.update_s, "update_s": found.update_s}
    facts = {"network": question.network, "batch": question.batch, "basis": found.basis}
    if question.output == "json":
        return say_json({"interpolated": {**facts, **times, "method": "modelled"}})
    return INTERPOLATED(**facts, **{name.removesuffix("_s") + "_ms": 1e3 * value for name, value in times.items()})


def _choose(report: BlocksReport, question: Question) -> BlocksReport:
    """Return the report limited to the requested steps.

    Raises
    ------
    ConfigError
        If there is none.
    """
    steps = report.steps
    if question.network:
        steps = tuple(one for one in steps if one.network == question.network)
        if not steps:
            known = ", ".join(dict.fromkeys(one.network for one in report.steps))
            raise ConfigError(at(str(question.blocks), NOT_TIMED(network=question.network, known=known)))
    if question.batch:
        found = tuple(one for one in steps if one.batch == question.batch)
        if not found:
            known = ", ".join(str(one.batch) for one in steps)
            facts = {"network": question.network or "no network", "known": known, "batch": question.batch}
            raise ConfigError(at(str(question.blocks), OTHER_BATCH(**facts)))
        steps = found
    return report.model_copy(update={"steps": steps})


def _say_blocks(report: BlocksReport, source: str) -> str:
    rows = [
        _say_row(row["batch"], row["block"], row["kind"], row["block_count"], row["time_s"], row["share_ratio"])
        for row in collect_block_times(report, source).to_dict("records")
    ]
    rows += [
        _say_row(one.batch, "arguments of the call", "call", 1, one.arguments_s, share_of_step(one, 1, one.arguments_s))
        for one in report.steps
        if one.arguments_s is not None
    ]
    return say_table(["batch", "block", "kind", "number", "each ms", "of step"], rows, kinds="nwknnn")


def _say_row(batch: int, name: str, kind: str, count: int, each_s: float, share_ratio: float) -> list[str]:
    return [
        str(batch), name, kind, f"{count} x",
        "" if math.isnan(each_s) else f"{1e3 * each_s:.3f}",
        "" if math.isnan(share_ratio) else f"{share_ratio:.1%}",
    ]  # fmt: skip
