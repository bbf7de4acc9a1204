"""Calls Snakemake as a user does, in a folder of the test's own."""

import functools
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
# Runs then have ranks without TensorFlow, which only obey their plan.
STUB_RANKS = {
    "PYTHONPATH": os.pathsep.join([str(ROOT / "tests/stub_ranks"), *os.environ.get("PYTHONPATH", "").split()])
}


class Project:
    """A working directory with the workflow of this checkout, or of a copy of it."""

    def __init__(self, directory, root=ROOT, study=ROOT / "tests/config/tiny.yaml", environment=()):
        self.directory, self.root, self.study = directory, root, study
        self.environment = dict(environment)

    def snakemake(self, *arguments, config=()):
        """Call Snakemake; return the finished process with everything it printed in stdout."""
        settings = [f"config_dir={self.study.parent}", *config]
        files = ["--snakefile", self.root / "Snakefile", "--directory", self.directory]
        profile = ["--workflow-profile", self.root / "profiles/default"]
        study = ["--configfile", self.study, "--config", *settings]
        return call_snakemake(*arguments, *files, *profile, *study, environment={**os.environ, **self.environment})

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


def call_snakemake(*arguments, environment=os.environ):
    """Call Snakemake; return the finished process with everything it printed in stdout."""
    words = [str(argument) for argument in arguments]
    # What starts no job goes to a Snakemake that is there already.
    if {"--dry-run", "--lint"} & set(words):
        return _call_warm(words, environment)
    text = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "env": environment}
    return subprocess.run([Path(sys.executable).parent / "snakemake", *words], check=False, **text)


@functools.cache
def _start_warm():
    """Start the program that makes calls without a start of their own; it ends with this process."""
    program = Path(__file__).with_name("warm_snakemake.py")
    return subprocess.Popen([sys.executable, "-P", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _call_warm(arguments, environment):
    server = _start_warm()
    with tempfile.NamedTemporaryFile("r") as output:
        call = {"arguments": arguments, "environment": dict(environment), "folder": str(Path.cwd())}
        try:
            print(json.dumps(call | {"output": output.name}), file=server.stdin, flush=True)
            status = int(server.stdout.readline())
        except BaseException:  # a test that timed out, for example: the next one must not get its answer
            server.kill()
            _start_warm.cache_clear()
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
