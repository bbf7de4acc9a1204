"""Whether the ranks of HPL had their cores to themselves, by the kernel's scheduler while its section lasts."""

import os
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from hpcai.core.errors import LaunchError

PERIOD_S = 0.05
"""Between two looks; one takes some hundred microseconds of a core that a rank may want."""
BEGIN, END = b"Begin of HPL section.", b"End of HPL section."
RANK = "hpcc"


@dataclass(frozen=True)
class CoreUse:
    """What the ranks got while HPL ran.

    Attributes
    ----------
    wall_s
        Between the first and the last look at the ranks.
    cpu_ratio
        Time on a core over wall time, of the rank that got least. A rank that waits for a message polls, which is
        time on a core as well: only a rank whose core was taken away is below one. NaN if it is not known.
    steal_ratio
        Time that a hypervisor took from this machine's cores, over their time; a rank cannot see it. NaN if unknown.
    """

    wall_s: float = 0.0
    cpu_ratio: float = float("nan")
    steal_ratio: float = float("nan")


@dataclass(frozen=True)
class _Look:
    time_s: float
    on_core_s: dict[int, float]
    steal_s: float


@dataclass
class _Section:
    """Looks at the ranks since the section of HPL began in the output file."""

    output: Path
    looks: list[_Look] = field(default_factory=list)
    ended: bool = False

    def follow(self, launcher: int) -> None:
        """Look again at the ranks if HPL is running."""
        text = self.output.read_bytes() if self.output.exists() else b""
        self.ended = self.ended or END in text
        if BEGIN in text and not self.ended:
            # Walking through all processes would take a core away from a rank: once is enough.
            ranks = list(self.looks[0].on_core_s) if self.looks else _find_ranks(launcher)
            self.looks = [*self.looks[:1], _look(ranks)]


def watch_run(command: list[str], folder: Path, environment: dict[str, str], limit_s: float) -> CoreUse:
    """Run ``hpcc`` in a folder and watch its ranks.

    Raises
    ------
    LaunchError
        If it ends with an error, or not within the limit.
    """
    section = _Section(folder / "hpccoutf.txt")
    with (folder / "launcher.txt").open("w+b") as words:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=words, stderr=words
        )
        deadline = time.monotonic() + limit_s
        try:
            while process.poll() is None and time.monotonic() < deadline:
                section.follow(process.pid)
                time.sleep(PERIOD_S)
        finally:
            if late := process.poll() is None:
                process.terminate()
                process.wait()
        words.seek(0)
        said = words.read().decode(errors="replace").strip()[-300:]
    if late:
        raise LaunchError(f"{' '.join(command)} was ended after {limit_s:g} s")
    if process.returncode:
        raise LaunchError(f"{' '.join(command)} ended with {process.returncode}: {said}")
    return judge(section.looks)


def judge(looks: list[_Look]) -> CoreUse:
    """Return what the ranks got between the first and the last look."""
    if len(looks) < 2 or looks[-1].time_s <= looks[0].time_s:
        return CoreUse()
    first, last = looks[0], looks[-1]
    wall_s = last.time_s - first.time_s
    shares = [(last.on_core_s.get(rank, 0.0) - on_core_s) / wall_s for rank, on_core_s in first.on_core_s.items()]
    steal = (last.steal_s - first.steal_s) / (wall_s * (os.cpu_count() or 1))
    return CoreUse(wall_s, min(shares, default=float("nan")), steal)


def _look(found: list[int]) -> _Look:
    """Read the time that each rank was on a core, and the time stolen from all cores."""
    now = time.monotonic()
    ranks = {rank: _read_on_core(rank) for rank in found}
    return _Look(now, {rank: value for rank, value in ranks.items() if value is not None}, _read_steal())


def _find_ranks(launcher: int) -> list[int]:
    """Return the processes that the launcher has started under the name of the benchmark."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            name, parent = _read_name(entry)
            if name == RANK and parent == launcher:
                found.append(int(entry.name))
    return found


def _read_name(entry: Path) -> tuple[str, int]:
    try:
        head, _, tail = (entry / "stat").read_text().rpartition(")")
    except OSError:  # ended meanwhile
        return "", 0
    return head.partition("(")[2], int(tail.split()[1])


def _read_on_core(rank: int) -> float | None:
    """Return the time of a rank's first thread on a core [s] (scheduler statistics, nanoseconds)."""
    try:
        return int(Path(f"/proc/{rank}/schedstat").read_text().split()[0]) * 1e-9
    except (OSError, ValueError, IndexError):  # ended meanwhile, or a kernel without these statistics
        return None


def _read_steal() -> float:
    fields = Path("/proc/stat").read_text().splitlines()[0].split()
    return int(fields[8]) / os.sysconf("SC_CLK_TCK")
