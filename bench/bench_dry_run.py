"""Time of `snakemake -n` for studies of one and ten thousand runs, and of the start of a single job.

Peer: Snakemake without our code on as many runs of two sequential shell jobs each, and a target; ours has one job per
run, because the controller writes the plans. Both are measured alternately.
Processor time is compared, because wall time depends on the machine's other load.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
SNAKEMAKE = Path(sys.executable).parent / "snakemake"
SIZES = {"1000": (10, 20, 5), "10000": (20, 50, 10)}
"""By number of runs: variants, scales (nodes x ranks per node), repeats."""
NODES = tuple(2**power for power in range(10))
BENCHMARK = "cosmoflow_tiny"
PEER = """
rule all:
    input: expand("runs/{number}/record.json", number=range(int(config["runs"])))
rule plan:
    output: "runs/{number}/plan.json"
    shell: "touch {output}"
rule train:
    input: "runs/{number}/plan.json"
    output: "runs/{number}/record.json"
    shell: "touch {output}"
"""


def main() -> None:
    """Print processor seconds and peak memory of dry runs, and of the start of one job, for each size."""
    print("runs   what          cpu_s  memory_mib")
    for size, parts in SIZES.items():
        with tempfile.TemporaryDirectory() as folder:
            study = _write_study(Path(folder), size, *parts)
            (Path(folder) / "peer.smk").write_text(PEER)
            own_s = _measure(size, "dry run", [*study, "--dry-run", "all"], folder)
            peer = ["--snakefile", "peer.smk", "--dry-run", "--config", f"runs={size}"]
            peer_s = _measure(size, "peer", peer, folder)
            _measure(size, "job's start", [*study, *_job_options()], folder)
            print(f"dry run / peer with {size} runs: {own_s / peer_s:.2f}")


def _write_study(folder: Path, size: str, variants: int, scales: int, repeats: int) -> list[str]:
    """Write a study with a given number of runs; return the options that name it."""
    machine = {"name": "bench", "nodes": max(NODES), "cores_per_node": 64, "ranks_per_node": 16}
    _change("machines/laptop.yaml", folder / "machines/bench.yaml", machine)
    # Samples and batches divisible by any number of ranks.
    batch = max(NODES) * 16
    changes: dict[str, Any] = {"data": {"train_samples": batch}, "recipe": {"global_batch": batch}}
    _change(f"benchmarks/{BENCHMARK}.yaml", folder / f"benchmarks/{BENCHMARK}.yaml", changes)
    points = [(nodes, 2**power) for power in range(scales // len(NODES)) for nodes in NODES]
    lines = [
        f"{BENCHMARK}\tv{number}\t{nodes}\t{ranks}\t{repeats}" for number in range(variants) for nodes, ranks in points
    ]
    (folder / "runs").mkdir()
    (folder / "runs/bench.tsv").write_text(
        "\n".join(["benchmark\tvariant\tnodes\tranks_per_node\trepeats", *lines]) + "\n"
    )
    study = {"name": "bench", "title": f"{size} runs", "machine": "bench", "benchmarks": [BENCHMARK], "runs": "bench"}
    (folder / "study.yaml").write_text(yaml.safe_dump(study))
    files = ["--snakefile", str(ROOT / "Snakefile"), "--workflow-profile", str(ROOT / "profiles/default")]
    return [*files, "--configfile", "study.yaml", "--config", f"config_dir={folder}"]


def _change(source: str, target: Path, changes: dict[str, Any]) -> None:
    """Write a configuration file with changed values."""
    settings = yaml.safe_load((ROOT / "config" / source).read_text())
    for key, value in changes.items():
        settings[key] = {**settings[key], **value} if isinstance(value, dict) else value
    target.parent.mkdir(exist_ok=True)
    target.write_text(yaml.safe_dump(settings))


def _job_options() -> list[str]:
    """Return the options that Snakemake's executors add when they start it again for a job, here for one run."""
    wildcards = f"benchmark={BENCHMARK},variant=v0,scale=n1x1,repetition=r1"
    job = ["--target-jobs", f"train:{wildcards}", "--allowed-rules", "train", "--cores", "1", "--force"]
    return [*job, "--nolock", "--ignore-incomplete", "--no-hooks", "--mode", "remote", "--dry-run"]


def _measure(size: str, what: str, arguments: list[str], folder: str) -> float:
    """Run Snakemake in a subprocess; return its processor seconds."""
    code = "import json, resource, subprocess, sys; "
    code += "subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL); "
    code += "used = resource.getrusage(resource.RUSAGE_CHILDREN); "
    code += "print(json.dumps([used.ru_utime + used.ru_stime, used.ru_maxrss]))"
    command = [sys.executable, "-c", code, str(SNAKEMAKE), *arguments]
    done = subprocess.run(command, check=True, cwd=folder, capture_output=True, text=True)
    cpu_s, memory_kib = json.loads(done.stdout)
    print(f"{size:6s} {what:12s} {cpu_s:6.2f}  {memory_kib / 1024:6.0f}", flush=True)
    return float(cpu_s)


if __name__ == "__main__":
    main()
