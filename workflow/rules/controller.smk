# Keeps the controller idle while a job is timed, because it shares the cores with the job.
# Snakemake 9.27.1 starts a timer after every scheduling pass, which triggers the next pass, and each finished job
# starts another such chain (docs/explanation/snakemake_scheduler.md). The timers serve the limit on job starts
# (`--max-jobs-per-timespan`, 100/1s) and are needed only while it holds a job back.

import threading

from hpcai.core.lean_imports import collect_less_often

# Python looks for garbage after every 700 new objects, and by each tenth of these passes among more of the graph of
# jobs, which lives until the end: an eighth of the processor time of a dry run of 1,000 runs. Imports are never garbage.
collect_less_often()


def look_again_only_if_held_back():
    """Let Snakemake schedule jobs when jobs end, and otherwise only when its limit on job starts was reached."""
    scheduler = workflow.scheduler
    limiter = scheduler.job_rate_limiter
    if limiter is None:
        return
    timer = None

    def look_once_for_all_that_ended():
        # Each pass handles all jobs that have ended. Without this, each of them triggers its own pass, and the passes
        # of thousands of short jobs continue during the first timed run.
        waiting = 0
        while scheduler._open_jobs.acquire(blocking=False):
            waiting += 1
        if waiting:
            scheduler._open_jobs.release()

    def look_again(delay_s):
        nonlocal timer
        look_once_for_all_that_ended()
        if limiter.get_free_jobs() == 0 and not (timer and timer.is_alive()):
            timer = threading.Timer(delay_s, scheduler._open_jobs.release)
            timer.daemon = True
            timer.start()

    scheduler._schedule_reevalutation = look_again


def call_in_modules(handler):
    """Run the start-up code also when another workflow uses this one as a module.

    Snakemake only calls the handlers of the main file. A main file that defines its own `onstart` after the module
    calls `MODULE.onstart()` there.
    """
    if not workflow.modifier.is_main_snakefile():
        own = workflow._onstart

        def both(log):
            own(log)
            handler()

        workflow._onstart = both
