"""The pipeline's overhead per run: wall time outside staging, training and evaluation, compared with a bare import.

Peer: a process that only imports TensorFlow, Keras and Horovod, which every run must do. Both are measured
alternately in one call.
"""

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from hpcai.records.files import read_record
from hpcai.records.run import RunRecord

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
GOAL_S = 15.0


def main() -> None:
    """Run the smallest study and print the overhead per run."""
    imports, records = [], []
    with tempfile.TemporaryDirectory() as folder:
        prepare = [*_snakemake(Path(folder)), "pack"]
        subprocess.run(prepare, check=True, capture_output=True)
        for record in ("n1x1/r1", "n1x2/r1", "n1x2/r2"):
            imports.append(_import_s())
            records.append(_measure(Path(folder), record))
    print("run       wall_s  overhead_s  launch_s  import_s  init_s  rest_s")
    for record in records:
        report = record.training
        if report is None or record.overhead_s is None or record.launch_s is None:
            sys.exit(f"{record.run_id}: {record.outcome}: {record.reason}")
        rest_s = record.overhead_s - record.launch_s - report.import_s - report.init_s
        parts = (record.wall_s, record.overhead_s, record.launch_s, report.import_s, report.init_s, rest_s)
        print(record.plan.point.scale, "     ", "  ".join(f"{part:8.2f}" for part in parts))
    overhead_s = statistics.median(record.overhead_s or 0.0 for record in records)
    import_s = statistics.median(imports)
    print(f"overhead per run: {overhead_s:.2f} s (median of {len(records)}); goal: at most {GOAL_S:g} s")
    print(
        f"bare import of TensorFlow, Keras, Horovod: {import_s:.2f} s; overhead / import: {overhead_s / import_s:.2f}"
    )


def _snakemake(folder: Path) -> list[str]:
    files = ["--snakefile", str(ROOT / "Snakefile"), "--configfile", str(ROOT / "tests/config/tiny.yaml")]
    place = ["--directory", str(folder), "--workflow-profile", str(ROOT / "profiles/default")]
    return [str(BIN / "snakemake"), *files, *place, "--config", f"config_dir={ROOT / 'tests/config'}", "--"]


def _measure(folder: Path, run: str) -> RunRecord:
    record = f"results/runs/cosmoflow_mini/fp32/{run}/record.json"
    subprocess.run([*_snakemake(folder), record], check=True, capture_output=True)
    return read_record(folder / record)


def _import_s() -> float:
    started = time.monotonic()
    code = "import tensorflow, keras, horovod.tensorflow"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    return time.monotonic() - started


if __name__ == "__main__":
    main()
