"""Calls Snakemake as a user does, in a folder of the test's own."""

import atexit
import functools
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]


def python_path(*folders):
    """Environment of programs that find modules in these folders of the tests first."""
    paths = [*(str(ROOT / "tests" / folder) for folder in folders), *os.environ.get("PYTHONPATH", "").split()]
    return {"PYTHONPATH": os.pathsep.join(paths)}


# The machine is then measured for seconds.
SHORT_MEASUREMENTS = python_path("short_measurements")
# Runs then have ranks without TensorFlow, which only obey their plan, and measurements are short as well.
STUB_RANKS = python_path("stub_ranks", "short_measurements")


class Project:
    """A working directory with the workflow of this checkout, or of a copy of it."""

    def __init__(self, directory, root=ROOT, study=ROOT / "tests/config/tiny.yaml", environment=()):
        self.directory, self.root, self.study = directory, root, study
        self.environment = dict(environment)

    def snakemake(self, *arguments, config=(), cold=False):
        """Call Snakemake; return the finished process with everything it printed in stdout."""
        settings = [f"config_dir={self.study.parent}", *config]
        files = ["--snakefile", self.root / "Snakefile", "--directory", self.directory]
        profile = ["--workflow-profile", self.root / "profiles/default"]
        study = ["--configfile", self.study, "--config", *settings]
        environment = {**os.environ, **self.environment}
        return call_snakemake(*arguments, *files, *profile, *study, environment=environment, cold=cold)

    def dry_run(self, *arguments, config=()):
        """Return how often each rule would run."""
        done = self.snakemake("--dry-run", *arguments, config=config)
        assert done.returncode == 0, done.stdout
        lines = done.stdout.splitlines()
        if "Job stats:" not in lines:
            assert "Nothing to be done" in done.stdout, done.stdout
            return {}
        table = lines[lines.index("Job stats:") + 3 :]
        rows = (line.split() for line in table[: table.index("")])
        return {name: int(count) for name, count in rows if name != "total"}


def call_snakemake(*arguments, environment=os.environ, cold=False):
    """Call Snakemake; return the finished process with everything it printed in stdout.

    By a Snakemake that has its imports done, unless it is to be a process as a user starts it, with hashes of its own,
    or one that finds another library.
    """
    words = [str(argument) for argument in arguments]
    known = (os.environ.get("PYTHONPATH"), *(made["PYTHONPATH"] for made in (STUB_RANKS, SHORT_MEASUREMENTS)))
    if not cold and environment.get("PYTHONPATH") in known:
        return _call_warm(words, environment)
    text = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "env": environment}
    return subprocess.run([Path(sys.executable).parent / "snakemake", *words], check=False, **text)


@functools.cache
def _start_warm():
    """Start the program that makes calls without a start of their own; it ends with this process."""
    program = Path(__file__).with_name("warm_snakemake.py")
    place = Path(tempfile.mkdtemp(), "calls")
    server = subprocess.Popen([sys.executable, "-P", program, place], stdin=subprocess.PIPE)

    def end():
        server.stdin.close()
        server.wait()
        place.unlink(missing_ok=True)
        place.parent.rmdir()

    atexit.register(end)
    while not place.exists():
        assert server.poll() is None, "the Snakemake with its imports done has ended"
        time.sleep(0.05)
    return place


def _call_warm(arguments, environment):
    with tempfile.NamedTemporaryFile("r") as output, socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(_start_warm()))
        call = {"program": "snakemake", "arguments": arguments, "environment": dict(environment)}
        with connection.makefile("rw") as stream:
            print(json.dumps(call | {"folder": str(Path.cwd()), "output": output.name}), file=stream, flush=True)
            child = int(stream.readline())
            try:
                status = int(stream.readline().split()[0])
            except BaseException:  # a test that timed out, for example
                os.kill(child, signal.SIGKILL)
                raise
        return subprocess.CompletedProcess(["snakemake", *arguments], status, output.read())


def edit_yaml(path, **changes):
    """Change values of a YAML file; a double underscore goes one level down."""
    data = yaml.safe_load(path.read_text())
    for dotted, value in changes.items():
        *parents, last = dotted.split("__")
        place = data
        for key in parents:
            place = place.setdefault(key, {})
        place[last] = value
    path.write_text(yaml.safe_dump(data))
