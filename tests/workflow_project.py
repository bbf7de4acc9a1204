"""Calls Snakemake as a user does, in a folder of the test's own."""

import subprocess
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]


class Project:
    """A working directory with the workflow of this checkout, or of a copy of it."""

    def __init__(self, directory, root=ROOT, study=ROOT / "tests/config/tiny.yaml"):
        self.directory, self.root, self.study = directory, root, study

    def snakemake(self, *arguments, config=()):
        """Call Snakemake; return the finished process with everything it printed in stdout."""
        settings = [f"config_dir={self.study.parent}", *config]
        files = ["--snakefile", self.root / "Snakefile", "--directory", self.directory]
        profile = ["--workflow-profile", self.root / "profiles/default"]
        command = [Path(sys.executable).parent / "snakemake", *arguments, *files, *profile]
        command += ["--configfile", self.study, "--config", *settings]
        text = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        return subprocess.run([str(part) for part in command], check=False, **text)

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
