"""HPC-AI Bench as a ReFrame test: measure a study, and report the median of each point.

reframe -c integrations/reframe -r --performance-report \\
    -S HpcAiStudy.snakefile=/path/to/Snakefile -S HpcAiStudy.study=/path/to/study.yaml
"""

import json
import math
import statistics
from collections import defaultdict
from pathlib import Path

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import run_before, sanity_function, variable

FINISHED = ("converged", "not_converged", "diverged")
# The suite whose rules count a run that missed its target as slower than all others.
COUNTS_ALL = "mlperf_hpc"
# Benchmark, variant, scale, repetition: earlier attempts, and runs that were set aside, lie deeper.
RECORDS = "results/runs/*/*/*/r*/record.json"


@rfm.simple_test
class HpcAiStudy(rfm.RunOnlyRegressionTest):
    """One study; its jobs are those of the workflow's own profile, so that this test itself may run on a login node."""

    descr = "HPC-AI Bench: repeated, distributed training benchmarks"
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    local = True
    hpcai = variable(str, value="hpcai")
    snakefile = variable(str, value="Snakefile")
    study = variable(str, value="config/study.yaml")
    workflow_options = variable(str, value="--cores all")

    @run_before("run")
    def set_command(self):
        self.executable = self.hpcai
        self.executable_opts = [
            "run", "measure", "--snakefile", self.snakefile, "--configfile", self.study, "--directory", ".",
            *self.workflow_options.split(),
        ]  # fmt: skip

    @sn.deferrable
    def records(self):
        """The records of all timed runs."""
        return [json.loads(path.read_text()) for path in sorted(Path(self.stagedir).glob(RECORDS))]

    @sanity_function
    def every_run_finished(self):
        return sn.all([
            sn.assert_gt(sn.len(self.records()), 0, "no record of a run below results/runs"),
            sn.all(sn.map(lambda one: sn.assert_in(one["outcome"], FINISHED, f"{one['run_id']}: {one['reason']}"),
                          self.records())),
            sn.assert_eq(sn.deferrable(missed)(self.records()), [], "half of the runs or more missed the target: {0}"),
        ])  # fmt: skip

    @run_before("performance")
    def set_measures(self):
        self.perf_variables = {
            f"{point} {name}": sn.make_performance_function(sn.defer(value), unit)
            for point, name, unit, value in medians(self.records().evaluate())
        }


def medians(records):
    """Return point, measure, unit and median over the repetitions of what the records of runs measured."""
    found = defaultdict(list)
    for record in records:
        training = record["training"]
        if training is None:
            continue
        name = record["run_id"].rpartition("/")[0]
        epochs = training["epochs"]
        train_s, samples = sum(one["train_s"] for one in epochs), sum(one["samples"] for one in epochs)
        reached = record["outcome"] == "converged"
        if reached or COUNTS_ALL in {verdict["suite"] for verdict in record["verdicts"]}:
            found[name, "time_to_train", "s"].append(training["run_s"] if reached else math.inf)
        if train_s > 0:
            found[name, "throughput", "samples/s"].append(samples / train_s)
        found[name, "staging", "s"].append(training["staging"]["staging_s"])
    return [(*key, statistics.median(values)) for key, values in sorted(found.items())]


def missed(records):
    """Return the points of which half of the runs or more missed a target that all have to reach."""
    return [point for point, _, _, value in medians(records) if math.isinf(value)]
