"""Convert the text of options and machine files to HPL scenarios: units, names, sweeps."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hpcai.config.machine import HplMachine, Machine
from hpcai.config.reading import Problems, read_yaml, validate
from hpcai.core.errors import ConfigError
from hpcai.core.units import to_si
from hpcai.predict.hpl.scenario import Scenario, rates_of_peaks
from hpcai.predict.links import HOST_LINKS_BYTES_PER_S, Network, named_network, plain_network

NUMBERS = {
    "order": "",
    "block": "",
    "nodes": "",
    "gpus-per-node": "",
    "gpu-rate": "FLOP/s",
    "gpu-multiplier": "",
    "cpu-rate": "FLOP/s",
    "trsm-rate": "FLOP/s",
    "panel-rate": "FLOP/s",
    "blas-efficiency": "",
    "cpu-efficiency": "",
    "gpu-efficiency": "",
    "network-efficiency": "",
    "host-link": "byte/s",
    "chunks": "",
}
"""Numeric options, with their target units."""

NAMES = ("network", "topology", "variant", "form")
MACHINE_KEYS = {
    "gpu-rate": "hpl.accelerator_peak",
    "cpu-rate": "hpl.processor_peak",
    "host-link": "hpl.host_link",
    "network": "links.network",
    "topology": "hpl.topology",
}
EFFICIENCIES = ("blas-efficiency", "cpu-efficiency", "gpu-efficiency", "network-efficiency")


@dataclass(frozen=True)
class Flags:
    """Flags that apply to all scenarios."""

    trsm: bool = False
    a22_both_ways: bool = False
    flop_count: str = "hpl"


def read_value(name: str, text: str) -> float | str | Network:
    """Return an option's value: a number in SI units, a name, or a network.

    Raises
    ------
    ConfigError
        If a number is missing or has a wrong unit.
    """
    if name == "network":
        return named_network(text) or plain_network(8 * _read_number(name, text, "byte/s", plain_factor=1 / 8))
    if name in NAMES:
        return text
    if name == "host-link" and text in HOST_LINKS_BYTES_PER_S:
        return HOST_LINKS_BYTES_PER_S[text]
    return _read_number(name, text, NUMBERS[name])


def _read_number(name: str, text: str, unit: str, plain_factor: float = 1.0) -> float:
    try:
        return float(text) * plain_factor
    except ValueError:
        pass
    if not unit:
        raise ConfigError(f"--{name} {text!r} is no number")
    try:
        return to_si(text, unit)
    except ValueError as error:
        known = f", or one of {', '.join(HOST_LINKS_BYTES_PER_S)}" if name == "host-link" else ""
        known = ", or a name such as 10GbE, EDR or EDR1x" if name == "network" else known
        raise ConfigError(f"--{name} {text!r}: {error}{known}") from None


def read_machine(path: Path) -> Machine:
    """Read a machine file; errors fit on one line.

    Raises
    ------
    ConfigError
        If it is missing or invalid.
    """
    problems = Problems()
    data = read_yaml(path, problems)
    machine = validate(Machine, data, str(path), problems) if data is not None else None
    if machine is None:
        raise ConfigError(
            "; ".join(" ".join(line.split()) for line in problems.lines) or f"{path}: an empty machine file"
        )
    return machine


def settings_of_machine(machine: Machine) -> dict[str, Any]:
    """Return the declarations of a machine file, by option; undeclared ones are omitted."""
    declared = machine.hpl or HplMachine()
    found: dict[str, Any] = {"nodes": float(machine.nodes)}
    if machine.accelerators_per_node:
        found["gpus-per-node"] = float(machine.accelerators_per_node)
    for name, peak in (("gpu-rate", declared.accelerator_peak), ("cpu-rate", declared.processor_peak)):
        if peak:
            found[name] = peak.rate_flop_per_s
    if declared.host_link:
        found["host-link"] = declared.host_link.bandwidth_bytes_per_s
    if machine.links.network:
        found["network"] = plain_network(8 * machine.links.network.bandwidth_bytes_per_s)
    if declared.topology:
        found["topology"] = declared.topology
    if declared.efficiencies:
        shares = declared.efficiencies
        ratios = (shares.blas_ratio, shares.processor_ratio, shares.accelerator_ratio, shares.network_ratio)
        found |= dict(zip(EFFICIENCIES, ratios, strict=True))
    return found


def read_sweeps(texts: list[str]) -> dict[str, list[float | str | Network]]:
    """Return the values of each swept option from texts such as ``block=128,256``.

    Raises
    ------
    ConfigError
        If an option is unknown or named twice, or has no value.
    """
    sweeps: dict[str, list[float | str | Network]] = {}
    for text in texts:
        name, _, values = text.partition("=")
        name = name.strip().removeprefix("--")
        if name not in NUMBERS and name not in NAMES:
            raise ConfigError(
                f"--sweep {text!r}: {name!r} cannot be swept; choose one of {', '.join([*NUMBERS, *NAMES])}"
            )
        if name in sweeps or not all(value.strip() for value in values.split(",")):
            raise ConfigError(f"--sweep {text!r}: expected NAME=a,b,c, each name once")
        sweeps[name] = [read_value(name, value.strip()) for value in values.split(",")]
    return sweeps


def expand(settings: Mapping[str, Any], sweeps: Mapping[str, list[Any]]) -> list[dict[str, Any]]:
    """Return one group of settings per network, variant and form; numbers are arrays over the other combinations."""
    apart = [name for name in ("variant", "form", "network") if name in sweeps]
    together = [name for name in sweeps if name not in apart]
    grid = list(itertools.product(*(sweeps[name] for name in together)))
    arrays = (
        {name: np.array(values) for name, values in zip(together, zip(*grid, strict=True), strict=True)}
        if together
        else {}
    )
    choices = itertools.product(*(sweeps[name] for name in apart))
    return [{**settings, **arrays, **dict(zip(apart, chosen, strict=True))} for chosen in choices]


def make_scenario(settings: Mapping[str, Any], flags: Flags, machine: Machine | None = None) -> Scenario:
    """Return the scenario for some settings.

    Raises
    ------
    ConfigError
        If an option is missing; names it and its key in the machine file.
    """
    variant, nodes = settings.get("variant", "device"), settings.get("nodes", 1.0)
    wanted = ["order", "block", "cpu-rate"]
    wanted += ["gpu-rate"] if variant != "cpu" else []
    wanted += ["host-link"] if variant not in {"cpu", "calibrated"} else []
    if np.any(np.asarray(nodes) > 1):
        wanted += ["network"] if variant == "calibrated" else ["network", "topology"]
    if machine is not None and variant != "calibrated":
        wanted += EFFICIENCIES
    _require_given(wanted, settings, machine)
    gpu_rate = settings.get("gpu-rate", np.nan) if variant != "cpu" else np.nan
    blas, cpu, gpu, network = (settings.get(name, 1.0) for name in EFFICIENCIES)
    multiplier = settings.get("gpu-multiplier", 1.0)
    if np.any(~(np.asarray(multiplier) > 0)):
        raise ConfigError(f"--gpu-multiplier: found {multiplier}; expected above 0")
    return Scenario(
        order=settings["order"],
        block=settings["block"],
        rates=rates_of_peaks(
            settings["cpu-rate"],
            np.asarray(gpu_rate) * multiplier,
            settings.get("gpus-per-node", 1.0),
            blas_ratio=blas,
            cpu_ratio=cpu,
            gpu_ratio=gpu,
        ),
        variant=variant,
        form=settings.get("form", "corrected"),
        nodes=nodes,
        host_link_bytes_per_s=settings.get("host-link", np.nan),
        network=settings.get("network"),
        network_efficiency_ratio=network,
        topology=settings.get("topology", "star"),
        chunks=settings.get("chunks", 1.0),
        trsm=flags.trsm,
        a22_both_ways=flags.a22_both_ways,
        trsm_rate_flop_per_s=settings.get("trsm-rate", np.nan),
        panel_rate_flop_per_s=settings.get("panel-rate", np.nan),
        flop_count=flags.flop_count,  # type: ignore[arg-type]
    )


def _require_given(wanted: list[str], settings: Mapping[str, Any], machine: Machine | None) -> None:
    missing = [name for name in wanted if name not in settings]
    if not missing:
        return
    words = f"--{missing[0]} is missing (needed: {', '.join(f'--{name}' for name in missing)})"
    keys = [MACHINE_KEYS.get(name, "hpl.efficiencies" if name in EFFICIENCIES else "") for name in missing]
    keys = list(dict.fromkeys(key for key in keys if key))
    if keys:
        file = f"{machine.name}.yaml" if machine else "a machine file"
        words += f"; give it, or declare {', '.join(keys)} in {file}"
    raise ConfigError(words)
