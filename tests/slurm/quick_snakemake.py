"""Snakemake whose remote executor looks every two seconds for jobs that have ended, not every ten to 180."""

from snakemake.cli import main
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor

LOOK_S = 2
_sleep = RemoteExecutor.sleep


async def sleep(self):
    self.next_seconds_between_status_checks = LOOK_S
    await _sleep(self)


RemoteExecutor.sleep = sleep
main()
