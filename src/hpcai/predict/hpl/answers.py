"""Answers for one machine: links that keep its efficiency, best block, largest order (table ``hpl_answers``)."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from hpcai.config.machine import HplEfficiencies, HplMachine, Machine
from hpcai.core.errors import ConfigError
from hpcai.predict.hpl.inverse import Answer, find_block, find_host_link, find_network, find_order
from hpcai.predict.hpl.scenario import Scenario, Variant, rates_of_peaks
from hpcai.predict.hpl.simulate import simulate
from hpcai.predict.links import Network, plain_network

LEAST_HOST_LINK = "least host link that keeps the efficiency"
LEAST_NETWORK = "least network that keeps the efficiency"


@dataclass(frozen=True)
class MachineChoice:
    """Options of a question about a machine: nodes (None = all), variant, and GPU speed-up factor."""

    nodes: int | None = None
    variant: Variant = "device"
    gpu_multiplier: float = 1.0


def scenario_of_machine(machine: Machine, order: float, block: float, choice: MachineChoice | None = None) -> Scenario:
    """Return the scenario of a machine file.

    Raises
    ------
    ConfigError
        If the file lacks a key that the variant needs, or more nodes are requested than the machine has.
    """
    choice = choice or MachineChoice()
    nodes = machine.nodes if choice.nodes is None else choice.nodes
    if not 1 <= nodes <= machine.nodes:
        raise ConfigError(f"machine {machine.name} has {machine.nodes} nodes; found {nodes}, expected 1 to that many")
    if choice.variant == "calibrated":
        raise ConfigError("the variant 'calibrated' takes fitted parameters, not those of a machine file")
    declared = machine.hpl or HplMachine()
    with_gpus = choice.variant != "cpu"
    _require_keys(machine, declared, with_gpus=with_gpus, several=nodes > 1)
    share = declared.efficiencies
    assert share is not None
    assert declared.processor_peak is not None
    gpu_peak = declared.accelerator_peak.rate_flop_per_s if with_gpus and declared.accelerator_peak else np.nan
    rates = rates_of_peaks(
        declared.processor_peak.rate_flop_per_s,
        gpu_peak * choice.gpu_multiplier,
        max(machine.accelerators_per_node, 1),
        blas_ratio=share.blas_ratio,
        cpu_ratio=share.processor_ratio,
        gpu_ratio=share.accelerator_ratio,
    )
    return Scenario(
        order=order,
        block=block,
        nodes=nodes,
        rates=rates,
        variant=choice.variant,
        host_link_bytes_per_s=declared.host_link.bandwidth_bytes_per_s if declared.host_link else np.nan,
        network=_network_of(machine),
        network_efficiency_ratio=share.network_ratio,
        topology=declared.topology or "star",
    )


def largest_order(
    machine: Machine, block: int, choice: MachineChoice | None = None, fraction_ratio: float = 0.9
) -> int:
    """Return the largest order for the memory that holds the matrix: of GPUs for ``device``, of nodes otherwise.

    Raises
    ------
    ConfigError
        If that memory is undeclared, or cannot hold a block.
    """
    choice = choice or MachineChoice()
    nodes = machine.nodes if choice.nodes is None else choice.nodes
    if choice.variant == "device":
        if machine.device.memory_bytes is None:
            raise _missing(machine, ["device.memory_bytes"], "the order that fits into GPU memory")
        memory_bytes = machine.device.memory_bytes * machine.accelerators_per_node
    else:
        memory_bytes = machine.memory_bytes
    return int(find_order(memory_bytes * nodes, block, fraction_ratio, choice.variant).value)


def _require_keys(machine: Machine, declared: HplMachine, *, with_gpus: bool, several: bool) -> None:
    if with_gpus and not machine.accelerators_per_node:
        raise ConfigError(
            f"machine {machine.name} has no accelerators (accelerators_per_node: 0); use the variant 'cpu'"
        )
    wanted = {"processor_peak": True, "efficiencies": True, "accelerator_peak": with_gpus, "host_link": with_gpus}
    wanted["topology"] = several
    missing = [f"hpl.{key}" for key, needed in wanted.items() if needed and getattr(declared, key) is None]
    if several and machine.links.network is None:
        missing.append("links.network")
    if missing:
        raise _missing(machine, missing, "a prediction of HPL")


def _missing(machine: Machine, keys: list[str], purpose: str) -> ConfigError:
    return ConfigError(
        f"machine {machine.name}: {', '.join(keys)} not declared; {purpose} needs "
        f"{'it' if len(keys) == 1 else 'them'}: add to the machine file, with a source"
    )


def _network_of(machine: Machine) -> Network | None:
    link = machine.links.network
    return plain_network(8 * link.bandwidth_bytes_per_s) if link else None


def describe_efficiencies(efficiencies: HplEfficiencies) -> str:
    """Describe the declared efficiencies for a table."""
    return (
        f"e_blas {efficiencies.blas_ratio:g}, e_cpu {efficiencies.processor_ratio:g}, "
        f"e_gpu {efficiencies.accelerator_ratio:g}, e_net {efficiencies.network_ratio:g}"
    )


ENDLESS_PER_S = 1e18


def answer_questions(
    machine: Machine, block: int = 256, keep_ratio: float = 0.95, choice: MachineChoice | None = None
) -> pd.DataFrame:
    """Answer the inverse questions for a machine file.

    Parameters
    ----------
    keep_ratio
        Share of the efficiency at infinite bandwidth that the link must keep.

    Returns
    -------
    pandas.DataFrame
        question, given, answer, unit, variant, form, reason, method, source; NaN with a reason if a key is undeclared
        or no value is a solution.
    """
    if choice is None:
        choice = MachineChoice(variant="device" if machine.accelerators_per_node else "cpu")
    questions: dict[str, tuple[str, Callable[[Scenario], tuple[Answer, str]]]] = {
        "rate of HPL": ("FLOP/s", _predict_rate),
        LEAST_HOST_LINK: ("byte/s", lambda scenario: _keep_host_link(scenario, keep_ratio)),
        LEAST_NETWORK: ("bit/s", lambda scenario: _keep_network(scenario, keep_ratio)),
        "best block": ("", lambda scenario: (find_block(scenario), "multiples of 32 up to 2048")),
    }
    order, rows = _largest(machine, block, choice)
    for question, (unit, find) in questions.items():
        answer, words = _ask(machine, block, order, choice, find, unit)
        rows.append(_row(machine, question, words, answer))
    return pd.DataFrame(rows)


def _largest(machine: Machine, block: int, choice: MachineChoice) -> tuple[float, list[dict[str, object]]]:
    try:
        answer = Answer(largest_order(machine, block, choice), "", choice.variant, "corrected")
    except ConfigError as error:
        answer = Answer(np.nan, "", choice.variant, "corrected", str(error))
    row = _row(machine, "largest order", f"90 % of the memory that holds the matrix, block {block}", answer)
    return answer.value, [row]


def _ask(
    machine: Machine,
    block: int,
    order: float,
    choice: MachineChoice,
    find: Callable[[Scenario], tuple[Answer, str]],
    unit: str,
) -> tuple[Answer, str]:
    try:
        if np.isnan(order):
            raise ConfigError("no order: see the largest order")
        scenario = scenario_of_machine(machine, order, block, choice)
        answer, words = find(scenario)
    except ConfigError as error:
        return Answer(np.nan, unit, choice.variant, "corrected", str(error)), ""
    return answer, f"order {order:.0f}, block {block}, {np.asarray(scenario.nodes).item()} nodes; {words}"


def _predict_rate(scenario: Scenario) -> tuple[Answer, str]:
    result = simulate(scenario)
    words = f"{float(result.efficiency_ratio):.1%} of the peak, {float(result.time_s):.1f} s"
    return Answer(float(result.rate_flop_per_s), "FLOP/s", result.variant, result.form), words


def _keep_host_link(scenario: Scenario, keep_ratio: float) -> tuple[Answer, str]:
    endless = float(simulate(replace(scenario, host_link_bytes_per_s=ENDLESS_PER_S)).efficiency_ratio)
    return find_host_link(scenario, keep_ratio * endless), _keep_words(keep_ratio, endless)


def _keep_network(scenario: Scenario, keep_ratio: float) -> tuple[Answer, str]:
    endless = float(simulate(replace(scenario, network=plain_network(ENDLESS_PER_S))).efficiency_ratio)
    return find_network(scenario, keep_ratio * endless), _keep_words(keep_ratio, endless)


def _keep_words(keep_ratio: float, endless: float) -> str:
    return f"{keep_ratio:.0%} of the efficiency {endless:.4f} of an endless one, so {keep_ratio * endless:.4f}"


def _row(machine: Machine, question: str, given: str, answer: Answer) -> dict[str, object]:
    shares = machine.hpl.efficiencies if machine.hpl else None
    return {
        "machine": machine.name,
        "question": question,
        "given": given,
        "answer": answer.value,
        "unit": answer.unit,
        "variant": answer.variant,
        "form": answer.form,
        "reason": answer.reason,
        "method": answer.method,
        "source": f"machine file machines/{machine.name}.yaml"
        + (f"; {describe_efficiencies(shares)}" if shares else ""),
    }
