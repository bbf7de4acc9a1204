"""Run HPL here with Debian's ``hpcc``, a site's own or one built here, one test per start, and monitor its core time.

``hpcc`` always runs the whole HPC Challenge suite, HPL last; the size of the tests follows the order of the matrix. So
every start takes some seconds more than HPL itself (``start_s`` of each run).
"""

import logging
import math
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from hpcai.config.prediction import HplTest
from hpcai.core.errors import LaunchError, ParseError
from hpcai.core.machine_lock import machine_to_itself
from hpcai.core.messages import Message
from hpcai.core.programs import say_ending
from hpcai.machine.hpl.build import HplBuild
from hpcai.machine.hpl.input import NAME, OWN_NAME, count_solutions, write_input
from hpcai.machine.hpl.library import PACKAGE, BlasLibrary, find_blas
from hpcai.machine.hpl.linked import blas_of_build, blas_of_command
from hpcai.machine.hpl.pingpong import measure_message_rate
from hpcai.machine.hpl.report import HplReport, HplRun, faults_of, judge_run
from hpcai.parsers.hpl import TIMERS, operations, read_hpl
from hpcai.records.files import read_part

logger = logging.getLogger(__name__)
LONGEST_S = 900.0
ATTEMPTS = 3
"""Maximum number of starts until one had the cores to itself, or that cannot be known; all stay in the report."""
ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "BLIS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
NO_COMMAND = Message(
    "run.no_command", "not measured: hpl.command of the machine file: {word} is not on the PATH of this node"
)
COMM = 15
"""Letters of a program's name that the kernel keeps (proc(5), comm)."""
PRINTED = "launcher.txt"
PERIOD_S = 0.05
"""Sampling interval [s]; a sample takes some hundred microseconds of a core that a rank may need."""


@dataclass(frozen=True)
class Program:
    """What is started: the words before the number of processes is put in, its output, and where its HPL begins.

    Attributes
    ----------
    words
        Command; ``{processes}`` stands for the number of processes.
    rank
        Name of its processes in the process table.
    input_name, output_name
        Files in the folder of a start. A program that left no output file has printed it.
    begin, end
        What the output says when HPL begins and ends; blank: the whole start is HPL.
    environment
        Variables of its own.
    message_rate_bytes_per_s
        Between two processes, where its output does not tell it; None: not known.
    """

    words: tuple[str, ...]
    rank: str = "hpcc"
    input_name: str = NAME
    output_name: str = "hpccoutf.txt"
    begin: bytes = b"Begin of HPL section."
    end: bytes = b"End of HPL section."
    environment: Mapping[str, str] = field(default_factory=dict)
    message_rate_bytes_per_s: float | None = None

    @classmethod
    def of_site(cls, words: Sequence[str]) -> "Program":
        """Return a site's own HPL: threads are left to the site, and nothing but HPL runs in a start."""
        filled = tuple(os.path.expandvars(word) for word in words)
        plain = [word for word in filled if not word.startswith("-") and "{" not in word]
        return cls(filled, Path(plain[-1]).name[:COMM], OWN_NAME, "HPL.out", b"", b"")

    def command(self, processes: int) -> list[str]:
        """Return the command of a start."""
        return [word.replace("{processes}", str(processes)) for word in self.words]

    def start_other(self, other: str) -> list[str]:
        """Return the command that starts another program, without arguments, on two processes."""
        place = max(index for index, word in enumerate(self.words) if Path(word).name[:COMM] == self.rank)
        return [*replace(self, words=self.words[:place]).command(2), other]

    @property
    def is_site(self) -> bool:
        """Whether this is a site's own HPL."""
        return not self.begin


@dataclass(frozen=True)
class CoreUse:
    """Core use by the ranks during HPL.

    Attributes
    ----------
    wall_s
        Time between the first and the last sample of the ranks.
    cpu_ratio
        Core time over wall time of the rank that got least. A rank that waits for a message polls, which also counts as
        core time: the ratio is below one only if a rank's core was taken away. NaN if unknown.
    steal_ratio
        Share of core time taken by a hypervisor; a rank cannot see it. NaN if unknown.
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
    """Samples of the ranks since HPL's section began in the output file."""

    program: Program
    output: Path
    looks: list[_Look] = field(default_factory=list)
    ended: bool = False

    def follow(self, launcher: int) -> None:
        """Sample the ranks again if HPL is running."""
        text = self.output.read_bytes() if self.output.exists() else b""
        begin, end = self.program.begin, self.program.end
        self.ended = self.ended or bool(end and end in text)
        if begin in text and not self.ended:
            # Walking through all processes would take a core away from a rank: once is enough.
            ranks = list(self.looks[0].on_core_s) if self.looks else _find_ranks(launcher, self.program.rank)
            if ranks:
                self._add(_look(ranks))

    def _add(self, look: _Look) -> None:
        """Keep the first and the last look at all ranks: of a rank that has ended, no time on a core is known."""
        if not self.looks or look.on_core_s.keys() == self.looks[0].on_core_s.keys():
            self.looks = [*self.looks[:1], look]


def watch_run(
    command: list[str], folder: Path, environment: dict[str, str], limit_s: float, program: Program | None = None
) -> CoreUse:
    """Run a program, ``hpcc`` if none is given, in a folder and watch its ranks.

    Raises
    ------
    LaunchError
        If it fails or exceeds the time limit.
    """
    program = program or Program(())
    section = _Section(program, folder / program.output_name)
    with (folder / PRINTED).open("w+b") as words:
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
        raise LaunchError(f"{' '.join(command)} {say_ending(process.returncode)}: {said}")
    return judge(section.looks)


def judge(looks: list[_Look]) -> CoreUse:
    """Return the ranks' core use between the first and the last sample."""
    if len(looks) < 2 or looks[-1].time_s <= looks[0].time_s:
        return CoreUse()
    first, last = looks[0], looks[-1]
    wall_s = last.time_s - first.time_s
    shares = [(last.on_core_s[rank] - on_core_s) / wall_s for rank, on_core_s in first.on_core_s.items()]
    steal = (last.steal_s - first.steal_s) / (wall_s * (os.cpu_count() or 1))
    return CoreUse(wall_s, min(shares, default=float("nan")), steal)


def _look(found: list[int]) -> _Look:
    """Read each rank's time on a core, and the time stolen from all cores."""
    now = time.monotonic()
    ranks = {rank: _read_on_core(rank) for rank in found}
    return _Look(now, {rank: value for rank, value in ranks.items() if value is not None}, _read_steal())


def _find_ranks(launcher: int, rank: str) -> list[int]:
    """Return the processes that the launcher has started under the name of the benchmark."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            name, parent = _read_name(entry)
            if name == rank and parent == launcher:
                found.append(int(entry.name))
    return found


def _read_name(entry: Path) -> tuple[str, int]:
    try:
        head, _, tail = (entry / "stat").read_text().rpartition(")")
    except OSError:  # the process has ended
        return "", 0
    return head.partition("(")[2], int(tail.split()[1])


def _read_on_core(rank: int) -> float | None:
    """Return the core time of a rank's first thread [s] (scheduler statistics, nanoseconds)."""
    try:
        return int(Path(f"/proc/{rank}/schedstat").read_text().split()[0]) * 1e-9
    except (OSError, ValueError, IndexError):  # the process has ended, or the kernel lacks these statistics
        return None


def _read_steal() -> float:
    fields = Path("/proc/stat").read_text().splitlines()[0].split()
    return int(fields[8]) / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class _Times:
    use: float | None
    steal: float | None
    start_s: float


def run_hpl(
    tests: Sequence[Mapping[str, int]],
    raw_folder: Path,
    command: Sequence[str] = (),
    build: str | Path | None = None,
    repeats: int = 1,
    take_rates: Callable[[HplTest], object] = lambda _: None,
) -> str:
    """Run HPL for each test; return a :class:`HplReport` as JSON.

    Parameters
    ----------
    tests
        ``order``, ``block`` and, unless they are 1, ``process_rows`` and ``process_columns`` of each.
    raw_folder
        Gets the complete output of each start, as ``hpccoutf-ORDER-BLOCK-ROWSxCOLUMNS-ATTEMPT.txt``.
    command
        A site's own HPL (machine file, ``hpl.command``); blank: what was built, or ``hpcc``.
    build
        Report of an HPL that was compiled here (:class:`hpcai.machine.hpl.build.HplBuild`); None: none was.
    repeats
        How often a start solves the largest system (:func:`~hpcai.machine.hpl.input.count_solutions`); the median time
        counts.
    take_rates
        Called before and after the starts of each test: what their time is predicted from is measured in turn with it.
    """
    wanted = [HplTest.model_validate(dict(test)) for test in tests]
    program, blas, reason = _find_program(command, read_part(HplBuild, Path(build)) if build else None)
    if reason:
        missing = tuple(HplRun(**test.model_dump(), reason=reason) for test in wanted)
        return HplReport(runs=missing, reason=reason).model_dump_json(indent=1)
    raw_folder.mkdir(parents=True, exist_ok=True)
    runs: list[HplRun] = []
    solutions = count_solutions(wanted, repeats)
    with machine_to_itself(logger.info):
        if program.is_site and any(test.processes > 1 for test in wanted):
            rate = measure_message_rate(program.start_other, raw_folder, program.environment)
            program = replace(program, message_rate_bytes_per_s=rate)
        for test in wanted:
            take_rates(test)
            runs += _try_test(test, program, raw_folder, solutions[test])
            take_rates(test)
    report = HplReport(
        runs=tuple(runs),
        library=blas.name,
        library_path=blas.path,
        versions=_read_versions(program, [raw_folder / run.raw for run in runs if run.raw]),
    )
    return report.model_dump_json(indent=1)


def find_hpl_blas(command: Sequence[str], build: str | Path | None) -> BlasLibrary:
    """Return the BLAS that HPL computes with, whose rates predict it; a reason if it is not known or cannot be timed.

    Parameters
    ----------
    command, build
        As `run_hpl` takes them.
    """
    return _find_program(command, read_part(HplBuild, Path(build)) if build else None)[1]


def _find_program(command: Sequence[str], built: HplBuild | None) -> tuple[Program, BlasLibrary, str]:
    """Return what is to be started, its BLAS as far as it is known, and why there is none."""
    if built and not command:
        return _built_program(built)
    if command:
        program = Program.of_site(command)
        first = program.words[0]
        if not shutil.which(first):
            return program, BlasLibrary(), NO_COMMAND(word=first)
        return program, blas_of_command(program.words), ""
    blas, launcher = find_blas(), find_launcher()
    no_launcher = "" if launcher else f"not measured: mpirun is not installed; Open MPI, which comes with {PACKAGE}"
    words = tuple(build_command(launcher or "", "{processes}"))
    return Program(words, environment={**ONE_THREAD, **blas.environment}), blas, blas.reason or no_launcher


def _built_program(built: HplBuild) -> tuple[Program, BlasLibrary, str]:
    launcher = shutil.which("mpirun")
    reason = built.reason or ("" if launcher else "mpirun is not on the PATH")
    program = Program.of_site(build_command(launcher or "", "{processes}", built.program))
    blas = BlasLibrary() if built.reason else blas_of_build(built.program, built.library_path)
    environment = {**ONE_THREAD, **blas.environment}
    program = replace(program, rank=Path(built.program).name[:COMM], environment=environment)
    return program, blas, reason and f"not measured: {reason}"


def find_launcher() -> str | None:
    """Return Open MPI's launcher, for which Debian's ``hpcc`` is built."""
    return shutil.which("mpirun.openmpi") or shutil.which("mpirun")


def build_command(launcher: str, processes: int | str, program: str = "hpcc") -> list[str]:
    """Return the command of one start by Open MPI.

    Ranks are not bound: the launcher would bind every start's ranks to the same first cores, even if these are busy.
    """
    as_root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return [launcher, *as_root, "--bind-to", "none", "-np", str(processes), program]


def lacks_cores(processes: int) -> str:
    """Return why so many processes are not started here; blank if each has a core."""
    cores = len(os.sched_getaffinity(0))
    return f"not measured: {processes} processes on {cores} cores" if processes > cores else ""


def _try_test(test: HplTest, program: Program, raw_folder: Path, repeats: int) -> Iterator[HplRun]:
    if not program.is_site and (reason := lacks_cores(test.processes)):  # a site's may start them elsewhere
        yield HplRun(**test.model_dump(), reason=reason)
        return
    for attempt in range(1, ATTEMPTS + 1):
        run = _run_once(test, program, raw_folder, attempt, repeats)
        logger.info("HPL %s, attempt %d: %s", test.words, attempt, run.reason or f"{run.measured_time_s:.2f} s")
        yield run
        if not faults_of(run):  # where the use of the cores is not known, it never will be
            return


def _run_once(test: HplTest, program: Program, raw_folder: Path, attempt: int, repeats: int) -> HplRun:
    command = program.command(test.processes)
    raw = raw_folder / f"{Path(program.output_name).stem}-{test.words}-{attempt}.txt"
    run = HplRun(
        **test.model_dump(), n=repeats, attempt=attempt, command=" ".join([Path(command[0]).name, *command[1:]])
    )
    with tempfile.TemporaryDirectory(prefix="hpcai-hpl-") as scratch:
        folder = Path(scratch)
        (folder / program.input_name).write_text(write_input(test, repeats))
        begin = time.monotonic()
        try:
            use = watch_run(command, folder, {**os.environ, **program.environment}, LONGEST_S, program)
        except (LaunchError, OSError) as error:
            return run.model_copy(update={"reason": f"not measured: {error}"})
        times = _Times(_known(use.cpu_ratio), _known(use.steal_ratio), time.monotonic() - begin)
        output = folder / program.output_name
        if not output.is_file() and program.is_site:
            output = folder / PRINTED
        if not output.is_file():
            return run.model_copy(update={"reason": f"not measured: {program.rank} left no {program.output_name}"})
        shutil.copyfile(output, raw)
    read = read_run(run.model_copy(update={"raw": raw.name}), raw, times.use, times.steal, times.start_s)
    if test.processes > 1 and program.is_site:
        read = read.model_copy(update={"message_rate_bytes_per_s": program.message_rate_bytes_per_s})
    return judge_run(read)


def read_run(run: HplRun, raw: Path, cpu_ratio: float | None, steal_ratio: float | None, start_s: float) -> HplRun:
    """Return a run with the results from the output of ``hpcc``: the median of ``run.n`` solutions of its system."""
    try:
        table = read_hpl(raw).table
    except ParseError as error:
        return run.model_copy(update={"reason": f"not measured: {error}"})
    shape = ["order", "block", "process_rows", "process_columns"]
    rows = table[(table[shape] == [getattr(run, name) for name in shape]).all(axis=1)]
    if len(rows) != run.n:
        return run.model_copy(update={"reason": f"not measured: {len(rows)} rows of results instead of {run.n}"})
    # The rate has more digits than the time.
    times_s = operations(run.order) / rows["rate_flop_per_s"]
    time_s, parts_s = float(times_s.median()), rows[[*TIMERS.values()]].dropna().median()
    failed = rows.loc[rows["verdict"] != "passed", "verdict"]
    message_rate = 1e9 * _summary_value(raw.read_text(errors="replace"), "AvgPingPongBandwidth_GBytes")
    return run.model_copy(
        update={
            "measured_time_s": _known(time_s),
            "measured_rate_flop_per_s": _known(operations(run.order) / time_s),
            "spread_ratio": _known(float(times_s.max() - times_s.min()) / time_s) if run.n > 1 else None,
            **{str(name): _known(value) for name, value in parts_s.items()},
            "residual": _known(float(rows["residual"].max())),
            "threshold": _known(float(rows["threshold"].iloc[0])),
            "verdict": str(failed.iloc[0]) if len(failed) else "passed",
            "cpu_ratio": cpu_ratio,
            "steal_ratio": steal_ratio,
            "message_rate_bytes_per_s": _known(message_rate) if run.process_rows * run.process_columns > 1 else None,
            "start_s": start_s,
        }
    )


def _summary_value(text: str, name: str) -> float:
    """Return a number from hpcc's summary; NaN if absent."""
    found = re.search(rf"^{name}=(\d+\.?\d*(?:e[+-]?\d+)?)$", text, re.MULTILINE)
    return float(found[1]) if found else math.nan


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _read_versions(program: Program, raws: list[Path]) -> dict[str, str]:
    """Return what launcher, suite and HPL say of themselves."""
    asked = subprocess.run([program.words[0], "--version"], capture_output=True, text=True, check=False).stdout
    versions = {"launcher": (asked.splitlines() or [""])[0]}
    text = raws[0].read_text(errors="replace") if raws else ""
    for name, pattern in (
        ("suite", r"HPC Challenge Benchmark version (\S+)"),
        ("hpl", r"^HPLinpack (\S+)"),
    ):
        if found := re.search(pattern, text, re.MULTILINE):
            versions[name] = found[1]
    return versions
