# Reports job events to `hpcai run`: one JSON line per event, in the file named by the variable HPCAI_JOURNAL.
# Snakemake's own log is unchanged.
# Failed jobs are always recorded, for `hpcai doctor`.
#
# Events and fields are those of Snakemake's logger plugins.

import json
import logging
import os
from contextlib import suppress
from pathlib import Path

from snakemake.logging import logger

from hpcai.campaign.failures import FILE as FAILURES

# The stage of a file's rules, if it is not the file's name.
STAGE_OF_FILE = {"weak": "measure", "profiles": "characterise"}


def stages_of_rules():
    """Stage of each rule; rules without files are names of targets."""
    files = {one.name: Path(one.snakefile).stem for one in workflow.rules if one.output}
    return {name: STAGE_OF_FILE.get(file, file) for name, file in files.items()}


class Journal(logging.Handler):
    """Records the planned jobs, and the start and end of every job."""

    def __init__(self, path):
        super().__init__()
        self._file = open(path, "a", buffering=1)

    def emit(self, record):
        event = getattr(record, "event", None)
        describe = {
            "run_info": self._plan,
            "job_info": self._start,
            "job_finished": lambda record: {"number": record.job_id},
            "job_error": lambda record: {"number": record.jobid},
        }.get(event)
        if describe:
            line = {"event": event, "time_s": record.created, **describe(record)}
            self._file.write(f"{json.dumps(line)}\n")

    def _plan(self, record):
        # The rest is submitted, if there is an executor to submit it to.
        here = sorted(workflow._localrules)
        plan = {"jobs": record.stats, "stages": stages_of_rules(), "here": here}
        return plan | {"rounds": list(config["rounds"])}

    def _start(self, record):
        job = {"number": record.jobid, "rule": record.rule_name}
        job |= {"output": list(record.output), "log": list(record.log)}
        if workflow.dryrun:
            # The requests to Slurm, for `hpcai check --profile`.
            asked = {
                name: value
                for name, value in record.resources.items()
                if isinstance(value, (int, str)) and name[0] != "_"
            }
            job |= {"resources": asked, "threads": record.threads}
        return job | {"wildcards": dict(record.wildcards)}


class Failures(logging.Handler):
    """Records failed jobs; a full disk is not treated as an additional error."""

    def emit(self, record):
        if getattr(record, "event", None) != "job_error":
            return
        job = {"time_s": record.created, "rule": record.rule_name}
        job |= {"output": list(record.output), "log": list(map(str, record.log))}
        with suppress(OSError):
            FAILURES.parent.mkdir(exist_ok=True)
            with FAILURES.open("a") as file:
                file.write(f"{json.dumps(job | {'message': record.rule_msg})}\n")


if workflow.is_main_process:
    logger.addHandler(Failures())
# Removed from the environment, so that a Snakemake started by a job reports nothing.
if workflow.is_main_process and (told := os.environ.pop("HPCAI_JOURNAL", None)):
    logger.addHandler(Journal(told))
