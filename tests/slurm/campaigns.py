"""Campaigns on the test cluster, started as a user does: `snakemake --profile slurm`.

Ranks only obey their plan (tests/stub_ranks), but for those of variants named `real...`.
"""

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from workflow_project import ROOT, STUB_RANKS, edit_yaml

from hpcai.records.files import read_record

HEADER = (ROOT / "tests/config/runs/tiny.tsv").read_text().splitlines()[0]
MINI = "cosmoflow_mini"
# Epochs of 0.2 s, and an end.
SLOW = {"data__dataset": "slow", "target__value": 1e-9, "recipe__max_epochs": 30}
GREEDY = {"model__base_filters": 800}  # that many MiB
WAIT_S = 120


class SlurmCampaign:
    """A study in a folder of its own, on a machine file that describes the cluster.

    Parameters
    ----------
    folder
        New folder on the file system that all nodes share.
    cluster
        The cluster.
    rows
        Lines "benchmark variant nodes ranks_per_node" of the run table, one repeat each. Benchmarks other than
        cosmoflow_mini are made from it, as `SLOW` says.
    changes
        Of the study file.
    """

    def __init__(self, folder, cluster, rows, **changes):
        self.folder, self.cluster = folder, cluster
        self.hold = folder / "hold"  # while it is there, runs go no further than their first epoch
        shutil.copytree(ROOT / "tests/config", folder / "config")
        storage = {"storage__node_local": "${TMPDIR}/hpcai", "memory_bytes": "3 GiB"}
        edit_yaml(folder / "config/machines/box.yaml", nodes=len(cluster.nodes), **storage)
        names = sorted({row.split()[0] for row in rows} | {MINI})
        for name in names:
            if name != MINI:
                path = shutil.copy(folder / f"config/benchmarks/{MINI}.yaml", folder / f"config/benchmarks/{name}.yaml")
                edit_yaml(path, name=name, **(SLOW | (GREEDY if name == "greedy" else {})))
        table = ["\t".join([*row.split(), "1", "fp32", "none", ""]) for row in rows]
        (folder / "config/runs/tiny.tsv").write_text("\n".join([HEADER, *table]) + "\n")
        edit_yaml(folder / "config/tiny.yaml", benchmarks=names, **changes)
        (folder / "home/snakemake").mkdir(parents=True)
        (folder / "home/snakemake/slurm").symlink_to(ROOT / "profiles/slurm")

    def take_data(self, folder):
        """Take over the data that another campaign has packed."""
        shutil.copytree(folder / "data", self.folder / "data")

    def start(self, *arguments):
        """Start Snakemake; its output goes to a file in the folder."""
        files = ["--profile", "slurm", "--snakefile", ROOT / "Snakefile", "--directory", self.folder]
        files += ["--slurm-init-seconds-before-status-checks", "1", "--max-status-checks-per-second", "2"]
        study = ["--configfile", self.folder / "config/tiny.yaml", "--config", f"config_dir={self.folder}/config"]
        command = [sys.executable, Path(__file__).parent / "quick_snakemake.py", *arguments, *files, *study]
        environment = {**self.cluster.environment, **STUB_RANKS, "STUB_HOLD": str(self.hold)}
        environment["XDG_CONFIG_HOME"] = str(self.folder / "home")
        with (self.folder / "controller.log").open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment)

    def run(self, *arguments):
        """Run Snakemake to its end; return its exit status."""
        return self.start(*arguments).wait()

    @property
    def output(self):
        """What all controllers have printed."""
        return (self.folder / "controller.log").read_text()

    def hpcai(self, *arguments):
        """Call the command line in the folder; return its exit status and what it printed."""
        command = [Path(sys.executable).parent / "hpcai", *arguments]
        done = self.cluster.run(*command, check=False, cwd=self.folder)
        return done.returncode, done.stdout + done.stderr

    def attempts(self, run):
        """Folders of the attempts at a run that are not published, the oldest first."""
        return sorted((self.folder / f"results/runs/{run}/r1/attempts").glob("*"))

    def record(self, run):
        """The published record of a run."""
        return read_record(self.folder / f"results/runs/{run}/r1/record.json")

    def wait_until_training(self, run):
        """Wait until an epoch of a run is done; return its Slurm job."""
        return self.cluster.wait_for(
            lambda: self._job_in_training(run), WAIT_S, f"an epoch of {run}: {self.output[-3000:]}"
        )

    def _job_in_training(self, run):
        newest = max(self.attempts(run), default=None)
        epochs = newest / "epochs.jsonl" if newest else None
        if epochs is None or not epochs.exists() or not epochs.stat().st_size:
            return None
        return json.loads((newest / "supervisor.json").read_text())["slurm_job"]


def target_of(run):
    """Name of the file that a run makes."""
    return f"results/runs/{run}/r1/record.json"


def kill_controller(process):
    """End a controller as a crash of its node does: it can do nothing any more."""
    process.send_signal(signal.SIGKILL)
    process.wait()
