"""Snakemake with its imports done: they take longer than what a dry run does then.

Each line of the standard input is a call: arguments, environment, folder and file for all output. A fork of its own
makes it, so that none finds traces of another; its exit status is the line that answers.
"""

import importlib
import json
import os
import sys

# What every call imports, at its start or later.
for name in (
    *("snakemake.cli", "snakemake.profiles", "snakemake.report.html_reporter", "nbformat"),
    *("hpcai.campaign.live", "hpcai.profiles.views", "hpcai.config.load", "hpcai.measure.publish"),
):
    importlib.import_module(name)


def call(arguments: list[str], environment: dict[str, str], folder: str, output: str) -> None:
    """Become a call of Snakemake; ends the process."""
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    for descriptor, place, flags in ((0, os.devnull, os.O_RDONLY), (1, output, os.O_WRONLY)):
        os.dup2(os.open(place, flags), descriptor)
    os.dup2(1, 2)
    sys.argv = ["snakemake", *arguments]
    sys.exit(importlib.import_module("snakemake.cli").main())


for line in sys.stdin:
    child = os.fork()
    if child == 0:
        call(**json.loads(line))
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(status, flush=True)
