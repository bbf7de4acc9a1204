"""Sample power and energy during a run with every meter of the node: RAPL, NVML, AMD SMI, Slurm, IPMI, Redfish.

The output is raw samples with monotonic time stamps, on the same clock as the steps of a run that starts on this node.
"""

import csv
import logging
import re
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpcai.config.machine import this_node
from hpcai.core.accelerators import nvml_handles
from hpcai.core.errors import LaunchError, ParseError
from hpcai.core.messages import Message

logger = logging.getLogger(__name__)
SAMPLE_S = 0.1
"""Sampling interval [s]. NVML refreshes its power about every 100 ms; RAPL counters take minutes or longer to wrap."""
SLURM_SAMPLE_S = 5.0
"""Sampling interval [s]. Slurm's nodes read sensors every 30 s by default; each query messages the controller."""
POWERCAP = Path("/sys/class/powercap")
WATTS = re.compile(r"CurrentWatts=(\S+)")
IPMI_WATTS = re.compile(r"^\s*Instantaneous power reading\s*:\s*(\d+)\s*Watts", re.MULTILINE)
IPMI_QUESTION = tuple("dcmi power reading".split())  # noqa: SIM905  a list would look like the kind of profile
SLOW_SAMPLE_S = 1.0
"""Management controllers average over a second or more, and amd-smi starts a Python for each question."""
AMD_SMI_QUESTION = ("metric", "--power", "--json")
COLUMNS = ("monotonic_s", "index", "power_mw")
"""Of all meters that tell power, not energy."""
WALL_COLUMNS = ("wall_s", *COLUMNS[1:])
"""The same with the time of day, for a run that starts on another node: no two nodes share a monotonic clock.

Slurm's samples are too far apart for the difference between synchronised clocks to count.
"""
CLOCKS = {"monotonic_s": time.monotonic, "wall_s": time.time}
"""The clock of each meter, by its first column."""
ANSWER_S = 10.0
"""Longest wait for Slurm's controller, or a node's: a sample that comes later is none."""
WHAT_GIVES_IT = {
    "rapl": "read permission on /sys/class/powercap/intel-rapl:*/energy_uj, on bare metal",
    "nvml": "an NVIDIA driver with a device that reports its power",
    "amd_smi": "amd-smi on the PATH, and an accelerator that reports its power to it",
    "slurm": "a job of a Slurm with AcctGatherEnergyType",
    "ipmi": "ipmitool with DCMI, and permission on /dev/ipmi0",
    "redfish": "the address of the node's power in the machine file (profilers.redfish)",
    "declared": "else declare `power:` in the machine file, which is labelled so",
}
"""What would make each meter work, in the order in which meters are looked for; a declared power is the last resort."""

REDFISH_FAILS = Message("power.redfish_fails", "Redfish: {url}: {error}")
SLURM_FAILS = Message("power.slurm_fails", "Slurm: {error}")
ELSEWHERE = Message(
    "power.elsewhere",
    "the run starts on {first} and the meters of {here} would tell the power of another node; start hpcai on {first}",
)


@dataclass(frozen=True)
class Meter:
    """One source of power or energy: its file, the file's columns, and the function that takes one sample of rows."""

    instrument: str
    columns: tuple[str, ...]
    sample: Callable[[], list[tuple[object, ...]]]
    period_s: float = SAMPLE_S


def find_power_meters(
    powercap: Path = POWERCAP, redfish: str = "", find_hosts: Callable[[], Sequence[str]] = tuple
) -> tuple[list[Meter], list[str]]:
    """Return the meters of this node in the order of `WHAT_GIVES_IT`, and for each that is missing why.

    If the run starts on another node, this one has no meter for it: its watts are not the run's, and its monotonic
    clock is not that of the run's steps. Slurm's meter remains, by the wall clock.

    Parameters
    ----------
    powercap
        Where the kernel shows RAPL.
    redfish
        Address of the node's power by Redfish (machine file, ``profilers.redfish``); blank: none.
    find_hosts
        Returns the nodes of the run, with Slurm's names, which Slurm is asked for; none outside of a job.
    """
    try:
        hosts, unknown = find_hosts(), ""
    except LaunchError as error:
        hosts, unknown = (), SLURM_FAILS(error=error)
    elsewhere = bool(hosts) and hosts[0] != this_node()
    of_slurm = unknown or _slurm(hosts, WALL_COLUMNS if elsewhere else COLUMNS)
    found: list[Meter | str]
    if elsewhere:
        found = [ELSEWHERE(first=hosts[0], here=this_node()), of_slurm]
    else:
        found = [_rapl(powercap), _nvml(), _amd_smi(), of_slurm, _ipmi(), _redfish(redfish)]
    meters = [meter for meter in found if isinstance(meter, Meter)]
    return meters, [reason for reason in found if isinstance(reason, str)]


@contextmanager
def metered(meters: Sequence[Meter], raw: Path) -> Iterator[None]:
    """Sample all meters into ``raw``/power_INSTRUMENT.csv while the body runs, at least at its start and end."""
    ended = threading.Event()
    threads = [threading.Thread(target=_sample, args=(meter, raw, ended), daemon=True) for meter in meters]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def _sample(meter: Meter, raw: Path, ended: threading.Event) -> None:
    with (raw / f"power_{meter.instrument}.csv").open("w", newline="") as stream:
        rows = csv.writer(stream)
        rows.writerow(meter.columns)
        now, last = CLOCKS[meter.columns[0]], False
        while True:
            now_s = now()
            rows.writerows((f"{now_s:.6f}", *row) for row in _taken(meter))
            stream.flush()
            if last:
                return
            last = ended.wait(meter.period_s)


def _taken(meter: Meter) -> list[tuple[object, ...]]:
    """Return a sample; none if the meter fails this time, which the reader sees as a gap."""
    try:
        return meter.sample()
    except (OSError, ParseError) as error:
        logger.warning("%s: %s", meter.instrument, error)
        return []


def _nvml() -> Meter | str:
    """Return a meter of the GPUs available to this process, numbered by their place in `find_accelerators`."""
    import pynvml

    try:
        handles = nvml_handles()
        for handle in handles:
            pynvml.nvmlDeviceGetPowerUsage(handle)
    except pynvml.NVMLError as error:
        return f"NVML: {error}"
    if not handles:
        return "NVML: no device"

    def sample() -> list[tuple[Any, ...]]:
        return [(index, _nvml_power_mw(handle)) for index, handle in enumerate(handles)]

    return Meter("nvml", COLUMNS, sample)


def _nvml_power_mw(handle: Any) -> int | str:  # noqa: ANN401  a handle of NVML has no type
    """Return the power of one device; blank if the device does not answer this time."""
    import pynvml

    try:
        return int(pynvml.nvmlDeviceGetPowerUsage(handle))
    except pynvml.NVMLError:
        return ""


def _rapl(powercap: Path) -> Meter | str:
    """Return a meter of the energy counters of the packages and of the memory (dram) of each, where it has one.

    A package's counter includes its other domains (core, uncore), but not the memory (Intel 64 and IA-32 Architectures
    Software Developer's Manual, volume 3B, RAPL domains; Documentation/power/powercap). A platform domain (psys) is
    listed next to the packages but contains them; the reader omits it by its name.
    """
    zones = sorted(zone for zone in powercap.glob("intel-rapl:*") if zone.name.count(":") == 1)
    if not zones:
        return f"RAPL: no package below {powercap}"
    try:
        domains = [*zones, *(part for zone in zones for part in _memories(zone))]
        ranges = {domain: int((domain / "max_energy_range_uj").read_text()) for domain in domains}
        names = {domain: _domain_name(domain) for domain in domains}
        for domain in domains:
            int((domain / "energy_uj").read_text())
    except (OSError, ValueError) as error:
        return f"RAPL: {error}"

    def sample() -> list[tuple[Any, ...]]:
        return [(names[domain], int((domain / "energy_uj").read_text()), ranges[domain]) for domain in domains]

    return Meter("rapl", ("monotonic_s", "domain", "energy_uj", "max_energy_range_uj"), sample)


def _memories(zone: Path) -> list[Path]:
    """Return the memory's domains below a package's, such as intel-rapl:0:1."""
    parts = sorted(zone.glob(f"{zone.name}:*"))
    return [part for part in parts if (part / "name").read_text().strip() == "dram"]


def _domain_name(domain: Path) -> str:
    """Return a domain's own name, such as package-0, psys-1 or dram-0:1, made unique by its numbers."""
    name = (domain / "name").read_text().strip()
    return name if name.startswith("package-") else f"{name}-{domain.name.partition(':')[2]}"


def _slurm(hosts: Sequence[str], columns: tuple[str, ...]) -> Meter | str:
    """Return a meter of the power of the run's nodes, gathered by Slurm, if an energy plug-in is active.

    A run may use a part of its job's nodes only, and the others draw power as well.
    """
    scontrol = shutil.which("scontrol")
    if not hosts or scontrol is None:
        return "Slurm: scontrol is not on the PATH" if hosts else "Slurm: not inside a job"
    nodes = ",".join(hosts)

    def sample() -> list[tuple[Any, ...]]:
        command = [scontrol, "show", "node", nodes]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=ANSWER_S)
        except subprocess.TimeoutExpired:
            return []
        # No node draws 0 W: a plug-in without a value reports 0 or n/s.
        watts = [int(text) if text.isdigit() else 0 for text in WATTS.findall(done.stdout)]
        # Nodes are numbered in the order of the answer: with one missing, the numbers would be those of others.
        if len(watts) != len(hosts):
            return []
        return [(index, value * 1000 or "") for index, value in enumerate(watts)]

    if not any(milliwatts for _, milliwatts in sample()):
        return f"Slurm: scontrol reports no CurrentWatts for {nodes}: no energy-gathering plugin is active here"
    return Meter("slurm", columns, sample, SLURM_SAMPLE_S)


def _ipmi() -> Meter | str:
    """Return a meter of the whole node's power as its management controller tells it (DCMI)."""
    program = shutil.which("ipmitool")
    if program is None:
        return "IPMI: ipmitool is not on the PATH"
    command = [program, *IPMI_QUESTION]

    def sample() -> list[tuple[Any, ...]]:
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=ANSWER_S)
        except subprocess.TimeoutExpired:
            return []
        found = IPMI_WATTS.search(done.stdout)
        # A node that draws nothing does not answer: 0 W is a controller without a sensor.
        return [(0, int(found[1]) * 1000)] if found and int(found[1]) else []

    if not sample():
        return "IPMI: ipmitool dcmi power reading tells no power (no DCMI sensor, or no permission)"
    return Meter("ipmi", COLUMNS, sample, SLOW_SAMPLE_S)


def _milliwatts(watts: float) -> int | str:
    """Return a cell; blank for a power that is not told, and for 0 W, which nothing draws that computes."""
    return round(watts * 1000) if watts > 0 else ""


def _amd_smi() -> Meter | str:
    """Return a meter of AMD's accelerators."""
    program = shutil.which("amd-smi")
    if program is None:
        return "amd_smi: amd-smi is not on the PATH"
    from hpcai.parsers.amd_smi import accelerators_power_w

    command = [program, *AMD_SMI_QUESTION]

    def sample() -> list[tuple[Any, ...]]:
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=ANSWER_S)
        except subprocess.TimeoutExpired:
            return []
        return [(index, _milliwatts(watts)) for index, watts in accelerators_power_w(done.stdout).items()]

    if not any(milliwatts for _, milliwatts in sample()):
        return "amd_smi: amd-smi metric --power tells no power of any accelerator"
    return Meter("amd_smi", COLUMNS, sample, SLOW_SAMPLE_S)


def _redfish(address: str) -> Meter | str:
    """Return a meter of the whole node as its management controller tells it over HTTP.

    The user's .netrc holds name and password of the controller, as for curl; REQUESTS_CA_BUNDLE names its certificate.
    """
    if not address:
        return "Redfish: the machine file names no address (profilers.redfish)"
    from hpcai.parsers.redfish import node_power_w

    url, _, fragment = address.replace("{host}", socket.gethostname().partition(".")[0]).partition("#")

    def sample() -> list[tuple[Any, ...]]:
        import requests

        answer = requests.get(url, timeout=ANSWER_S, headers={"Accept": "application/json"})
        answer.raise_for_status()
        return [(0, _milliwatts(node_power_w(answer.json(), fragment)))]

    try:
        ((_, milliwatts),) = sample()
    except (OSError, ParseError) as error:  # errors of requests are OSErrors
        return REDFISH_FAILS(url=url, error=error)
    if not milliwatts:
        return REDFISH_FAILS(url=url, error="the answer has no power now")
    return Meter("redfish", COLUMNS, sample, SLOW_SAMPLE_S)
