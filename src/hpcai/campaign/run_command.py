"""The command ``hpcai run``: Snakemake with a status screen, then the time per stage and the location of the report."""

import json
import os
import shlex
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from hpcai.campaign.child import Child, snakemake_program
from hpcai.campaign.failures import OUTCOMES_RULE, last_words
from hpcai.campaign.journal import Job, Journal, read_journals
from hpcai.campaign.run_options import (
    ENGINE_OF_WHEELS,
    PREDICTORS,
    calls_of,
    only_answers,
    refuse_without_workflow,
    report_words,
    study_files,
    without_horovod,
    working_folder,
)
from hpcai.campaign.screen import Scene, open_screen
from hpcai.campaign.stage_times import FILE, say_stage_times, seconds_per_job, stage_times, write_stage_times
from hpcai.config.load import refuse_loose_files
from hpcai.config.rounds import find_round, name_round
from hpcai.core.disturbance import Disturbance, Tolerance, is_disturbed
from hpcai.core.messages import Message
from hpcai.launchers.registry import default_launcher
from hpcai.records.files import RUN_RECORDS

LOGS = Path("logs/run")
REPORT = Path("results/report.html")
QUIET_S, BUSY_S, ENDING_S = 3.0, 1.0, 0.2
"""Redraw interval of the screen: while a run is timed, otherwise, and after a signal."""
ALWAYS = ["--rerun-incomplete"]
"""Interrupted jobs leave files that Snakemake otherwise refuses; a finished run is only republished."""
EARLIER = 5
"""Number of earlier starts used to estimate job durations."""
DISTURBED_PREDICTORS = Message(
    "run_command.disturbed",
    "disturbed: {names}: others took more than {most:.0%} of the cores meanwhile; remove and measure again",
)
LEFT_OUT = Message("run_command.left_out", "Left out, because they could not be imported: {rounds}")
IMPORT_RULE = "import_round"
TAIL = 30
"""Number of log lines shown if Snakemake fails without a failed job."""
NO_HOROVOD = (
    "Horovod is not installed: engine {engine} where the run table names no engine, and launcher {launcher} where the "
    "profile names none (make env HOROVOD=yes brings Horovod)"
)
HELP = """usage: hpcai run [predict | regressors] [SNAKEMAKE ARGUMENTS ...]

Run the workflow with one screen instead of Snakemake's lines, which go to logs/run/; then say where the time went and
where the report is. All arguments go to Snakemake (snakemake --help): targets, --configfile, --config, --profile, ...
`predict` first measures what the predictors need, then makes everything, the report included; `regressors` does so
with the kernels, which take longer than all else.
After a failure the report of what there is is made. Ctrl-C ends all jobs in an orderly way, a second one at once.
Exit status: Snakemake's; 130 after Ctrl-C."""


def run(words: list[str]) -> int:
    """Run the workflow with Snakemake's arguments, and return its exit status; 130 after Ctrl-C.

    Raises
    ------
    ConfigError
        If an option lacks its value, a settings file is not a regular file, or no workflow is here.
    MissingExtraError
        If Snakemake is not installed.
    """
    if words in (["-h"], ["--help"]):
        print(HELP)
        return 0
    # Snakemake would block on a FIFO, read a device forever, and run the Python code of a template.
    refuse_loose_files(study_files(words))
    snakemake_program()  # fail before anything is written
    if not {"-h", "--help", "-v", "--version"} & set(words):
        refuse_without_workflow(words)
    asked, words = words, without_horovod(words)
    if words != asked:
        print(NO_HOROVOD.format(engine=ENGINE_OF_WHEELS, launcher=default_launcher()), flush=True)
    if only_answers(words):
        return subprocess.run([snakemake_program(), *words], check=False).returncode
    start = Start(words)
    with start.child.listening():
        status = reported = start.make(calls_of(words))
        if start.is_reported:
            reported = 0
        elif status and not start.child.signals and start.has_records:
            print("Something failed. Report of the existing results:", flush=True)
            reported = start.report()
    start.say_end(status, is_reported=not reported and not start.child.signals)
    return 128 + start.child.signals[0] if start.child.signals else status


def disturbed_predictors(results: Path) -> list[str]:
    """Return a line if something was measured for predictions while others used the machine; none if nothing was.

    Parameters
    ----------
    results
        Folder of a study. Each file of ``predict/MACHINE`` says what others took meanwhile.
    """
    tolerance, names = Tolerance(), []
    for file in sorted((results / "predict").glob("*/*.json")):
        with suppress(OSError, ValueError):
            nodes = json.loads(file.read_bytes()).get("disturbance") or ()
            if is_disturbed([Disturbance.model_validate(one) for one in nodes], tolerance):
                names.append(str(file))
    return [DISTURBED_PREDICTORS(names=", ".join(names), most=tolerance.others_ratio)] if names else []


def _with_options(words: Sequence[str]) -> list[str]:
    # Words after -- are not options.
    place = words.index("--") if "--" in words else len(words)
    return [*words[:place], *ALWAYS, *words[place:]]


class Start:
    """One start of the workflow: one call of Snakemake, or several in sequence."""

    def __init__(self, words: list[str]) -> None:
        self.words, self.working = words, working_folder(words)
        self.child = Child()
        self.started_s = time.time()
        self.logs = self.working / LOGS
        self.logs.mkdir(parents=True, exist_ok=True)
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(self.started_s))
        self.log = self.logs / f"{stamp}.log"
        earlier = sorted(self.logs.glob("*.jsonl"))[-EARLIER:]
        self._before = seconds_per_job(read_journals(earlier))
        self.journals: list[Journal] = []

    def make(self, calls: list[list[str]]) -> int:
        """Call Snakemake and show its progress, until a call fails; return the last exit status."""
        status = 0
        for words in calls:
            status = self._call(words)
            if status or self.child.signals:
                break
        return status

    def report(self) -> int:
        """Make the report of what there is; return the last exit status.

        Rounds that could not be imported are named and left out. Without ``--keep-going`` an import shows only when
        those before it are left out.
        """
        while True:
            lost = self._lost_rounds()
            if lost:
                print(LEFT_OUT(rounds=", ".join(lost)), flush=True)
            status = self.make([self._report_words()])
            if not status or self.child.signals or self._lost_rounds() == lost:
                return status

    def _lost_rounds(self) -> list[str]:
        """Return the rounds that could not be imported, as the study names them."""
        names = {job.wildcards["round"] for job in self._failed() if job.rule == IMPORT_RULE}
        return [one for one in self.journals[0].rounds if name_round(str(self.working / find_round(one))) in names]

    def _report_words(self) -> list[str]:
        lost = self._lost_rounds()
        return report_words(self.words, [one for one in self.journals[0].rounds if one not in lost] if lost else None)

    def _call(self, words: Sequence[str]) -> int:
        path = self.log.with_name(f"{self.log.stem}.{len(self.journals) + 1}.jsonl").absolute()
        journal = Journal(path)
        self.journals.append(journal)
        scene = Scene(self.working, journal, self.log, self.started_s, self._before)
        screen = open_screen()

        def look() -> float:
            journal.ending = bool(self.child.signals)
            journal.read_on()
            if self.child.signals:
                scene.note = "Stopping: waiting for running jobs. Press Ctrl-C again to stop at once."
            with suppress(OSError):  # a closed pipe or terminal must not end the runs
                screen.show(scene)
            if self.child.signals:
                return ENDING_S
            return QUIET_S if any(job.folder for job in journal.in_state("running")) else BUSY_S

        environment = {**os.environ, "HPCAI_JOURNAL": str(path)}
        try:
            return self.child.call([snakemake_program(), *_with_options(words)], self.log, environment, look)
        finally:
            journal.ending = bool(self.child.signals)
            journal.read_on()
            journal.end_running(time.time())
            scene.note = ""
            with suppress(OSError):
                screen.close(scene)

    @property
    def has_records(self) -> bool:
        """Whether there is something to report, and the workflow was not refused at its start."""
        return bool(self.journals[0].jobs) and any((self.working / "results").glob(RUN_RECORDS))

    @property
    def is_reported(self) -> bool:
        """Whether only the last job failed, which lists points without a result: the report exists."""
        failed = self._failed()
        return bool(failed) and all(job.rule == OUTCOMES_RULE for job in failed)

    def _failed(self) -> list[Job]:
        return [job for journal in self.journals for job in journal.in_state("failed")]

    def say_end(self, status: int, *, is_reported: bool) -> None:
        """Print the time per stage, the next command, and the locations of log and report."""
        jobs = [job for journal in self.journals for job in journal.jobs.values()]
        lines: list[str] = []
        if status and not self.child.signals and not any(job.state == "failed" for job in jobs):
            lines += [*self.log.read_text(errors="replace").splitlines()[-TAIL:], ""]
        if jobs:
            times = stage_times(self.journals, self.started_s, time.time())
            write_stage_times(times, self.logs / FILE)
            lines += [*say_stage_times(times), ""]
        elif not status:
            lines += ["Nothing to do: everything is up to date."]
        lines += disturbed_predictors(self.working / "results") if self.words[:1] in PREDICTORS else []
        lines += self._next_lines() if status or self.child.signals else []
        lines.append(f"log: {self.log}; times: {self.logs / FILE}" if jobs else f"log: {self.log}")
        report = (self.working / REPORT).resolve()
        if is_reported and report.exists():
            lines.append(report.as_uri())
        print("\n".join(lines), flush=True)

    def _next_lines(self) -> list[str]:
        lines = []
        if self.is_reported:
            said = (last_words(self.working / log) for job in self._failed() for log in job.logs)
            results = self.working / "results"
            retry = shlex.join(["hpcai", "retry", *([str(results)] if self.working != Path() else [])])
            return [*said, f"try them again:             {retry} && {shlex.join(['hpcai', 'run', *self.words])}"]
        if self.child.is_hurried and any((self.working / ".snakemake/locks").glob("*")):
            lines.append(f"first:                      {shlex.join(['hpcai', 'run', *self.words, '--unlock'])}")
        lines.append(f"go on where it ended:       {shlex.join(['hpcai', 'run', *self.words])}")
        lines.append(f"report of the results:      {shlex.join(['hpcai', 'run', *self._report_words()])}")
        return lines
