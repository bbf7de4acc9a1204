"""Answers about one machine: which links keep its efficiency, best block, largest order (table ``hpl_answers``)."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd

from hpcai.config.machine import Machine
from hpcai.core.errors import ConfigError
from hpcai.predict.hpl.inverse import Answer, find_block, find_host_link, find_network
from hpcai.predict.hpl.machine import MachineChoice, describe_efficiencies, largest_order, scenario_of_machine
from hpcai.predict.hpl.scenario import Scenario
from hpcai.predict.hpl.simulate import simulate
from hpcai.predict.links import plain_network

ENDLESS_PER_S = 1e18


def answer_questions(
    machine: Machine, block: int = 256, keep_ratio: float = 0.95, choice: MachineChoice | None = None
) -> pd.DataFrame:
    """Answer the inverse questions for a machine file.

    Parameters
    ----------
    keep_ratio
        Share of the efficiency of an endless link that the asked link keeps.

    Returns
    -------
    pandas.DataFrame
        question, given, answer, unit, variant, form, reason, method, source; NaN and the reason where a key is not
        declared or no value answers.
    """
    if choice is None:
        choice = MachineChoice(variant="device" if machine.accelerators_per_node else "cpu")
    questions: dict[str, tuple[str, Callable[[Scenario], tuple[Answer, str]]]] = {
        "rate of HPL": ("FLOP/s", _predict_rate),
        "least host link that keeps the efficiency": ("byte/s", lambda scenario: _keep_host_link(scenario, keep_ratio)),
        "least network that keeps the efficiency": ("bit/s", lambda scenario: _keep_network(scenario, keep_ratio)),
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
