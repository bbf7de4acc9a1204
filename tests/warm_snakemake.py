"""Snakemake and the scripts of its jobs with their imports done: those take longer than most of what is done then.

Waits at a socket, whose path is its argument, until its standard input ends. A request is a line: what to become, its
arguments, environment, folder, and a file for all output. A fork of its own becomes it, so that none finds traces of
another; the answer is a line with its process id, and one with its exit status and the processor time it took.
Scripts that measure start as always, and so does every program that a job calls.
"""

import ast
import importlib
import json
import os
import runpy
import select
import socket
import subprocess
import sys
from pathlib import Path

from hpcai.core.lean_imports import collect_less_often, made_to_stay

SCRIPTS = Path(__file__).parents[1] / "workflow/scripts"
ANALYSING = (
    *("analyse_rounds", "collect_groups", "collect_runs", "collect_views", "import_own_runs", "import_round"),
    *("judge_steps", "predict_published", "predict_study", "read_profiles", "require_results", "score_study"),
    *("show_stage", "sum_blocks", "summarise_predictions", "write_document", "write_report", "write_rounds_page"),
    "write_study",
)
# What every call imports, at its start or later.
IMPORTED = (
    *("snakemake.cli", "snakemake.profiles", "snakemake.report.html_reporter", "snakemake.script", "nbformat"),
    *("hpcai.campaign.live", "hpcai.profiles.views", "hpcai.config.load", "hpcai.measure.publish"),
    *("pint", "pyarrow.parquet", "scipy.stats", "seaborn", "hpcai.plots.interactive"),
)


def import_all() -> None:
    """Import what Snakemake and the scripts need; no search for garbage, now or later, looks through it."""
    with made_to_stay():
        for name in IMPORTED:
            importlib.import_module(name)
        for script in ANALYSING:
            tree = ast.parse((SCRIPTS / f"{script}.py").read_text())
            for one in tree.body:
                if isinstance(one, ast.ImportFrom):
                    importlib.import_module(str(one.module))
    collect_less_often()


def serve(place: str) -> None:
    """Answer requests, several at the same time, until the standard input ends."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{place}.bound")
        listener.listen(64)
        os.rename(f"{place}.bound", place)  # a caller who sees it is never refused
        while sys.stdin not in (ready := select.select([sys.stdin, listener], [], [], 1)[0]):
            if listener in ready:
                connection, _ = listener.accept()
                with connection:
                    if os.fork() == 0:
                        listener.close()
                        answer(connection, place)
                        os._exit(0)
            reap(os.WNOHANG)
    reap(0)


def reap(options: int) -> None:
    """Take notice of ended children."""
    try:
        while os.waitpid(-1, options)[0]:
            pass
    except ChildProcessError:
        pass


def answer(connection: socket.socket, place: str) -> None:
    """Let a child become what is asked for; tell how it ends."""
    with connection.makefile("rw") as stream:
        request = json.loads(stream.readline())
        child = os.fork()
        if child == 0:
            connection.close()
            become(place, **request)
        print(child, file=stream, flush=True)
        _, status, used = os.wait4(child, 0)
        print(os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime, file=stream, flush=True)


def become(
    place: str, program: str, arguments: list[str], environment: dict[str, str], folder: str, output: str
) -> None:
    """Become a call of Snakemake or of a script; ends the process."""
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    for descriptor, name, flags in ((0, os.devnull, os.O_RDONLY), (1, output, os.O_WRONLY | os.O_APPEND)):
        os.dup2(os.open(name, flags), descriptor)
    os.dup2(1, 2)
    sys.argv = [program, *arguments]
    if program != "snakemake":
        sys.path.insert(0, str(Path(program).parent))
        runpy.run_path(program, run_name="__main__")
        sys.exit()
    keep_scripts_warm(place, output)
    sys.exit(importlib.import_module("snakemake.cli").main())


def keep_scripts_warm(place: str, output: str) -> None:
    """Let scripts that only analyse become forks as well."""
    kind = importlib.import_module("snakemake.script").PythonScript
    start = kind.execute_script

    def execute(self, fname, edit=False):  # type: ignore[no-untyped-def]
        if Path(self.path.get_filename()).stem not in ANALYSING:
            start(self, fname, edit=edit)
            return
        request = {"program": fname, "arguments": [], "environment": dict(os.environ), "folder": str(Path.cwd())}
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(place)
            with connection.makefile("rw") as stream:
                print(json.dumps(request | {"output": output}), file=stream, flush=True)
                stream.readline()
                status = int(stream.readline().split()[0])
        if status:
            raise subprocess.CalledProcessError(status, [sys.executable, fname])

    kind.execute_script = execute


if __name__ == "__main__":
    import_all()
    serve(sys.argv[1])
