# What the process that waits for jobs does while one of them is timed: nothing, for it shares the cores with it.
#
# Snakemake 9.27.1 starts a timer after every look at the ready jobs, whose end is the next look, and each job that ends
# starts one more such chain (docs/explanation/snakemake_scheduler.md). The timers are there for the limit of job starts
# (`--max-jobs-per-timespan`, 100/1s): they are needed only while it holds a job back.

import threading


def look_again_only_if_held_back():
    """Let Snakemake look at the ready jobs when jobs end, and otherwise only when its limit of job starts was met."""
    scheduler = workflow.scheduler
    limiter = scheduler.job_rate_limiter
    if limiter is None:
        return
    timer = None

    def look_once_for_all_that_ended():
        # Each look takes in all jobs that have ended; without this, each of them has a look of its own, so that those of
        # thousands of short jobs go on beside the first timed run.
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
    """Call what is to be done at the start also where another workflow uses this one as a module.

    Snakemake calls the handlers of the main file alone. A main file whose own `onstart` stands behind the module calls
    `MODULE.onstart()` there.
    """
    if not workflow.modifier.is_main_snakefile():
        own = workflow._onstart

        def both(log):
            own(log)
            handler()

        workflow._onstart = both
