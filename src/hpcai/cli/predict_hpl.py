"""The command ``hpcai predict hpl``: its options, and its answer as a table, JSON or CSV."""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import numpy as np
import pandas as pd
import typer

from hpcai.cli.options import Command, TableJsonOrCsv, Texts, choice, flag, option, takes
from hpcai.config.machine import Machine
from hpcai.core.errors import ConfigError
from hpcai.core.messages import Message
from hpcai.core.units import to_si
from hpcai.predict.hpl.counts import FlopCount
from hpcai.predict.hpl.inverse import Answer, find_block, find_host_link, find_network, find_order
from hpcai.predict.hpl.scenario import VARIANTS, Scenario
from hpcai.predict.hpl.simulate import simulate, tabulate_steps
from hpcai.predict.hpl_settings import (
    EFFICIENCIES,
    NAMES,
    NUMBERS,
    Flags,
    expand,
    make_scenario,
    read_machine,
    read_sweeps,
    read_value,
    settings_of_machine,
)
from hpcai.predict.links import HOST_LINKS_BYTES_PER_S, Form, Network
from hpcai.predict.topology import TOPOLOGIES

app = typer.Typer(rich_markup_mode=None, add_completion=False)
UNKNOWN_CHOICE = Message("predict_hpl.unknown_choice", "{option}: found {found!r}, expected one of {known}")
NOT_COUNTED = Message("predict_hpl.not_counted", "{parts} not counted: rate and efficiency are an upper bound")

_EPILOGUE = """\
\b
examples:
  One node with four GPUs, and what its host link does to it:
    hpcai predict hpl --order 125000 --block 256 --gpus-per-node 4 --gpu-rate "6.6 TFLOP/s" \\
      --cpu-rate "2.6624 TFLOP/s" --blas-efficiency 0.9 --gpu-efficiency 0.9 --host-link paper_Gen3 \\
      --sweep host-link=paper_Gen3,paper_Gen4 --sweep block=128,256,512
  Which network keeps an efficiency of 55 % on a declared machine:
    hpcai predict hpl --machine config/machines/paper_hu_lu_4gpu.yaml --order 176000 --block 128 \\
      --inverse network --target 0.55
  The largest order for a memory:
    hpcai predict hpl --inverse order --block 256 --memory "128 GiB"
"""

_HELP = {
    "order": "N, order of the matrix",
    "block": "NB, width of a panel; the remainder of N / NB is left out",
    "nodes": "number of nodes (default: 1, or all nodes of the machine file)",
    "gpus-per-node": "GPUs per node (default 1)",
    "gpu-rate": 'fp64 peak of one GPU, such as "6.6 TFLOP/s"; calibrated: its fitted rate',
    "gpu-multiplier": "GPUs this many times faster (default 1)",
    "cpu-rate": "fp64 peak of all processors of one node; variant cpu: the rate of the update (DGEMM)",
    "trsm-rate": "variant cpu: rate of the triangular solve; left out = not counted",
    "panel-rate": "variant cpu: rate of the panel; left out = not counted",
    "blas-efficiency": "share of both peaks that the library reaches (default 1: rates are effective rates)",
    "cpu-efficiency": "additional factor on the processors' peak (default 1)",
    "gpu-efficiency": "additional factor on the GPUs' peak (default 1)",
    "network-efficiency": "share of the network's rate (default 1)",
    "host-link": f'rate such as "32 GB/s", or one of {", ".join(HOST_LINKS_BYTES_PER_S)}',
    "chunks": "variant pipe: number of chunks of the trailing matrix (default 1)",
    "network": 'rate such as "100 Gbit/s", or 10GbE (Ethernet frames), SDR to HDR (InfiniBand, 4 lanes), EDR1x',
    "topology": f"{', '.join(TOPOLOGIES)}; needed with several nodes",
    "variant": f"{', '.join(VARIANTS)} (default device: matrix in GPU memory)",
    "form": "corrected (default), or printed: the equations as the paper prints them, for variant pipe",
}


PARTS = {"trsm-rate": "solve", "panel-rate": "panel"}
"""Parts of variant cpu that are left out without a rate of their own."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """Options of `hpcai predict hpl`."""

    machine: Annotated[Path | None, option("FILE", "machine file (YAML); options override it")] = None
    given: Annotated[dict[str, str], Texts({name: _HELP[name] for name in (*NUMBERS, *NAMES)})]
    trsm: Annotated[bool, flag("--trsm", "add the triangular solve to the time")] = False
    a22_both_ways: Annotated[bool, flag("--a22-both-ways", "variant balance: move the trailing matrix both ways")] = (
        False
    )
    flop_count: Annotated[FlopCount, choice("reported flop: 2/3 N^3 + 3/2 N^2 or + 2 N^2")] = "hpl"
    sweep: Annotated[
        list[str] | None, option("NAME=a,b,c", "values of one option; may be repeated for all combinations")
    ] = None
    steps: Annotated[bool, flag("--steps", "show all steps of one scenario")] = False
    inverse: Annotated[
        Literal["host-link", "network", "block", "order"] | None, choice("solve for the rate, block or order instead")
    ] = None
    target: Annotated[
        str | None, option("RATIO", "efficiency to reach, 0 to 1, for --inverse host-link and network")
    ] = None
    memory: Annotated[
        str | None, option("SIZE", 'memory that holds the matrix, such as "128 GiB", for --inverse order')
    ] = None
    memory_fraction: Annotated[str, option("RATIO", "share of it")] = "0.9"
    output: TableJsonOrCsv = "table"


@app.command(cls=Command, epilog=_EPILOGUE)
@takes(Question)
def hpl(question: Question) -> None:
    """Predict the time, rate and efficiency of HPL (High-Performance Linpack) on nodes with processors and GPUs.

    Uses the step model of Hu and Lu 2021 (doi 10.1007/s11227-021-03829-x). All numbers are modelled; each row names the
    variant and the form of its equations. The efficiency is over the peak of the GPUs alone (variant cpu: of the
    processors).
    """
    print(_write(_compute(question), question.output), end="")


def _compute(question: Question) -> pd.DataFrame:
    settings = {name: read_value(name, text) for name, text in question.given.items()}
    if question.steps and question.inverse:
        raise ConfigError("--steps: found it with --inverse, expected one of them")
    machine: Machine | None = read_machine(question.machine) if question.machine else None
    if machine:
        settings = settings_of_machine(machine) | settings
    flags = Flags(question.trsm, question.a22_both_ways, question.flop_count)
    sweeps = read_sweeps(question.sweep or [])
    if not (question.steps or question.inverse):
        groups = expand(settings, sweeps)
        found = [_predict(group, make_scenario(group, flags, machine)) for group in groups]
        frame = pd.concat(found, ignore_index=True)
        return frame.fillna({"bound": ""}) if "bound" in frame else frame
    if sweeps:
        raise ConfigError("--sweep cannot be combined with --steps or --inverse")
    if question.inverse == "order":
        return _frame_of(_answer_order(question, settings), settings)
    if question.inverse == "block":
        settings.setdefault("block", 1.0)
    scenario = make_scenario(settings, flags, machine)
    if question.steps:
        return tabulate_steps(scenario)
    return _frame_of(_answer(question, scenario), settings)


def _predict(settings: dict[str, Any], scenario: Scenario) -> pd.DataFrame:
    result = simulate(scenario)
    shape = result.time_s.shape or (1,)
    columns: dict[str, Any] = {
        "variant": result.variant,
        "form": result.form,
        "order": scenario.order,
        "block": scenario.block,
        "nodes": scenario.nodes,
    }
    shown = (
        "gpus-per-node",
        "gpu-multiplier",
        "gpu-rate",
        "cpu-rate",
        *EFFICIENCIES,
        "host-link",
        "chunks",
        "topology",
    )
    columns |= {_column(name): settings[name] for name in shown if name in settings}
    if isinstance(settings.get("network"), Network):
        columns["network"] = settings["network"].name
    columns |= {
        "time_s": result.time_s,
        "rate_flop_per_s": result.rate_flop_per_s,
        "peak_flop_per_s": result.peak_flop_per_s,
        "efficiency_ratio": result.efficiency_ratio,
        "flop_count": result.flop_count,
        "method": result.method,
    }
    if parts := [part for name, part in PARTS.items() if result.variant == "cpu" and name not in settings]:
        columns["bound"] = NOT_COUNTED(parts=" and ".join(parts))
    frame = pd.DataFrame({name: np.broadcast_to(np.asarray(value), shape).ravel() for name, value in columns.items()})
    whole = {name: "int64" for name in ("order", "block", "nodes", "gpus_per_node", "chunks") if name in frame}
    return frame.astype(whole)


def _column(name: str) -> str:
    suffix = {"host-link": "_bytes_per_s", "gpu-rate": "_flop_per_s", "cpu-rate": "_flop_per_s"}.get(name, "")
    suffix = "_ratio" if name in EFFICIENCIES else suffix
    return name.replace("-", "_") + suffix


def _answer_order(question: Question, settings: dict[str, Any]) -> Answer:
    if question.memory is None or "block" not in settings:
        raise ConfigError("--inverse order needs --memory and --block")
    for name, known in (("variant", VARIANTS), ("form", get_args(Form))):
        if settings.get(name, known[0]) not in known:
            raise ConfigError(UNKNOWN_CHOICE(option=f"--{name}", found=settings[name], known=", ".join(known)))
    block = settings["block"]
    if not (math.isfinite(block) and block >= 1 and block == int(block)):
        raise ConfigError(f"--block: found {block:g}; expected a whole number of 1 or more")
    memory_bytes = _read(question.memory, "memory", "byte")
    fraction = _read(question.memory_fraction, "memory-fraction", "")
    return find_order(memory_bytes, int(block), fraction, str(settings.get("variant", "device")))


def _answer(question: Question, scenario: Scenario) -> Answer:
    if question.inverse == "block":
        return find_block(scenario)
    if question.target is None:
        raise ConfigError(f"--inverse {question.inverse} needs --target, the efficiency to reach (0 to 1)")
    target = _read(question.target, "target", "")
    return find_host_link(scenario, target) if question.inverse == "host-link" else find_network(scenario, target)


def _read(text: str, name: str, unit: str) -> float:
    try:
        return float(text)
    except ValueError:
        if not unit:
            raise ConfigError(f"--{name} {text!r} is not a number") from None
    try:
        return to_si(text, unit)
    except ValueError as error:
        raise ConfigError(f"--{name} {text!r}: {error}") from None


def _frame_of(answer: Answer, settings: dict[str, Any]) -> pd.DataFrame:
    known: dict[str, Any] = {name: settings[name] for name in ("order", "block") if name in settings}
    row: dict[str, Any] = {
        **known,
        "answer": answer.value,
        "unit": answer.unit,
        "variant": answer.variant,
        "form": answer.form,
    }
    row |= {"reason": answer.reason, "method": answer.method}
    return pd.DataFrame({name: [value] for name, value in row.items()})


def _write(frame: pd.DataFrame, output: str) -> str:
    if output == "json":
        rows = json.loads(frame.to_json(orient="records", double_precision=15))
        return json.dumps(rows, indent=1) + "\n"
    if output == "csv":
        return frame.to_csv(index=False)
    # A column with the same value in every row is printed once, above the table.
    same = [str(name) for name in frame if len(frame[name].unique()) == 1]
    head = "".join(f"{name}: {_show(frame[name].iloc[0])}\n" for name in same)
    if len(frame) == 1:
        return head
    return f"{head}{frame.drop(columns=same).to_string(index=False, float_format=_show)}\n"


def _show(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, (float, np.floating)) else str(value)
