"""Time of each stage of the default study, from an empty folder to the report, and the machine's other load.

Goal: 8 minutes on two quiet cores. The times are those printed by `make run`. Stages overlap if two cores are free,
so they add up to more than the total.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pandas as pd

ROOT = Path(__file__).resolve().parents[1]
GOAL_S = 480.0


def main() -> None:
    """Run the default study in an empty folder; print its stages, and the disturbance of the timed runs."""
    with tempfile.TemporaryDirectory() as folder:
        program = [str(Path(sys.executable).parent / "hpcai"), "run", "--snakefile", str(ROOT / "Snakefile")]
        command = [*program, "--workflow-profile", str(ROOT / "profiles/default")]
        started_s = time.monotonic()
        done = subprocess.run(command, cwd=folder, check=False, stdout=subprocess.PIPE, text=True)
        total_s = time.monotonic() - started_s
        if done.returncode:
            sys.exit(f"the study ended with {done.returncode}:\n{done.stdout[-2000:]}")
        stages = json.loads(Path(folder, "logs/run/stage_times.json").read_text())
        print(json.dumps(stages, indent=1))
        runs = pd.read_parquet(Path(folder, "results/tables/runs.parquet"))
        print(runs[["run_id", "wall_s", "others_ratio", "steal_ratio", "quiet"]].to_string(index=False))
        print(f"whole study / goal of {GOAL_S:.0f} s: {total_s:.0f} s, {total_s / GOAL_S:.2f}")


if __name__ == "__main__":
    main()
