"""Snakemake that waits for nothing but its jobs.

Its executor for Slurm sleeps 5 s before each submission, one after the other, and any remote executor looks for jobs
that have ended only every ten to 180 seconds.
"""

import time
from types import SimpleNamespace

import snakemake_executor_plugin_slurm as plugin
from snakemake.cli import main
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor

LOOK_S = 1
_sleep = RemoteExecutor.sleep


async def sleep(self):
    self.next_seconds_between_status_checks = LOOK_S
    await _sleep(self)


RemoteExecutor.sleep = sleep
# Only this module's own waits: what it imports, and the jobs, keep theirs.
plugin.time = SimpleNamespace(**vars(time) | {"sleep": lambda _seconds: None})
main()
