"""Run all benches in sequence: `make bench`. Each prints ratios from interleaved measurements."""

import argparse
import subprocess
import sys
from pathlib import Path

PARTS = {
    "bench_step.py": "training steps of all benchmarks against the machine's GEMM rate",
    "bench_engines.py": "steps of the engines tensorflow and jax against horovod, on one rank",
    "bench_reference.py": "CosmoFlow step against the public reference implementation's model code",
    "bench_exchange.py": "the same on two ranks with Horovod over Gloo, and an allreduce of 10 MB",
    "bench_input.py": "input pipeline against the step that it feeds, and against a bare TFRecord read",
    "bench_grain.py": "input pipeline against Grain on the same files, where Grain is installed",
    "bench_staging.py": "verified staging against cp -r and against parallel unverified copies",
    "bench_official_sizes.py": "manifests of the official number of files, as tables against rows in JSON",
    "bench_timeline.py": "reading a Horovod timeline against Python's json",
    "bench_darshan.py": "reading 24 Darshan logs against PyDarshan's own summary",
    "bench_rounds.py": "import and verdict of all logs of MLPerf HPC v0.7 against mlperf-logging's checker",
    "bench_list.py": "the list's site: published rounds, 10,000 simulated entries, and one entry more",
    "bench_report.py": "opening the report in a browser against Snakemake's own report of the same study",
    "bench_dry_run.py": "dry runs of 1,000 and 10,000 runs against Snakemake itself on a bare workflow of as many",
    "bench_large_studies.py": "hpcai doctor, status and the tables of 10,000 generated runs, against 10 s and 1 GB",
    "bench_campaign.py": "a campaign of 100 runs of stub ranks, from start to report, with three kills of Snakemake",
    "bench_ranks.py": "processor time per rank outside of training with 1,024 ranks against 64, and files per run",
    "bench_acceptance.py": "losses of one node that an acceptance finds among 3, 8 and 64, by simulation",
    "bench_hpl.py": "HPL runs predicted per second on one core, against a plain Python loop",
    "bench_training_model.py": "training steps of ResNet-50 predicted per second, against a plain Python loop",
    "bench_predictors.py": "errors of all predictors on what they were not told, from results/",
    "bench_weak_forecasts.py": "forecasts of published weak-scaling results, where their repositories are named",
    "bench_groups.py": "steps with 1, 2, 4 and 8 messages of gradients, measured and predicted",
    "bench_replay.py": "replays of a timeline against trainings with other messages, another cycle and a slow rank",
    "bench_controller.py": "what Snakemake's controller takes of a core while runs are timed, against Snakemake itself",
    "bench_stages.py": "the default study, stage by stage",
    "bench_overhead.py": "the pipeline's own time per run",
}


def main() -> None:
    """Run every part, or those named; exit with the number of failed parts, or with 2 for a name that is none."""
    names = [name.removesuffix(".py") for name in PARTS]
    listed = "\n".join(f"  {name.removesuffix('.py'):22} {words}" for name, words in PARTS.items())
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=f"parts:\n{listed}", formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="a part; all without one")
    asked = [name.removesuffix(".py") for name in parser.parse_args().names]
    if unknown := [name for name in asked if name not in names]:
        parser.error(f"found {', '.join(unknown)}, expected some of {', '.join(names)}")
    failed = 0
    for name in [f"{name}.py" for name in names if not asked or name in asked]:
        print(f"\n== {name}: {PARTS[name]}", flush=True)
        failed += subprocess.run([sys.executable, str(Path(__file__).with_name(name))], check=False).returncode != 0
    sys.exit(failed)


if __name__ == "__main__":
    main()
