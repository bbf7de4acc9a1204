# What happens to jobs, told to the program that shows it (`hpcai run`): one JSON line per event, in the file that the
# variable HPCAI_JOURNAL names. Snakemake's own log stays as it is.
#
# The events and their fields are those that Snakemake gives its logger plugins.

import json
import logging
import os
from pathlib import Path

from snakemake.logging import logger

# The stage that the rules of a file belong to, where it is not the file's name.
STAGE_OF_FILE = {"weak": "measure", "profiles": "characterise"}


def stages_of_rules():
    """Stage of each rule; what makes no file is the name of a target, and a plan is written down in no time."""
    files = {
        one.name: Path(one.snakefile).stem
        for one in workflow.rules
        if one.output and not one.name.startswith("plan_")
    }
    return {name: STAGE_OF_FILE.get(file, file) for name, file in files.items()}


class Journal(logging.Handler):
    """Writes down what is to be done, and start and end of every job."""

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
        return {"jobs": record.stats, "stages": stages_of_rules()}

    def _start(self, record):
        job = {"number": record.jobid, "rule": record.rule_name}
        job |= {"output": list(record.output), "log": list(record.log)}
        return job | {"wildcards": dict(record.wildcards)}


# Taken out of the environment: a Snakemake that a job starts tells nothing.
if workflow.is_main_process and (told := os.environ.pop("HPCAI_JOURNAL", None)):
    logger.addHandler(Journal(told))
