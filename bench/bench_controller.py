"""Share of one core that Snakemake's controller uses while it waits for a job, with and without our remedy.

A toy workflow (tests/workflow/waiting.smk): finished short jobs, and eight ready jobs in sequence, one of which sleeps.
Peer: unmodified Snakemake, started in turn. With 10,000 jobs it would take hours, so only ours is measured there.
Goal: at most 1 % of one core, for any number of finished jobs and any way to start Snakemake.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SNAKEMAKE = Path(sys.executable).parent / "snakemake"
STARTS = {
    "bare": [],
    "profiles/default": ["--workflow-profile", str(ROOT / "profiles/default")],
    "profiles/laptop": ["--profile", str(ROOT / "profiles/laptop")],
    "profiles/workstation": ["--profile", str(ROOT / "profiles/workstation")],
}
MANY_AT_ONCE = ["--cores", "1024", "--scheduler", "greedy"]
"""Two at a time, 10,000 jobs take hours, most of which the controller spends on finding the next two."""
WINDOW_S, REPEATS = 10.0, 3


def main() -> None:
    """Print the share of one core for each way to start, and the ratio to unmodified Snakemake."""
    print("done jobs  start                 share of one core, each repeat")
    own = [_share(200, STARTS["bare"], quiet=True) for _ in range(REPEATS)]
    peer = [_share(200, STARTS["bare"], quiet=False) for _ in range(REPEATS)]
    _say(200, "bare", own)
    _say(200, "Snakemake itself", peer)
    for name, options in list(STARTS.items())[1:]:
        _say(200, name, [_share(200, options, quiet=True) for _ in range(REPEATS)])
    _say(10_000, "bare, many at once", [_share(10_000, MANY_AT_ONCE, quiet=True)])
    print(f"ours / Snakemake's own after 200 jobs: {sorted(own)[1] / sorted(peer)[1]:.3f}")


def _say(done: int, name: str, shares: list[float]) -> None:
    print(f"{done:9d}  {name:20s}  {', '.join(f'{share:.2%}' for share in shares)}", flush=True)


def _share(done: int, options: list[str], *, quiet: bool) -> float:
    """Start the toy, wait until its long job sleeps, and return the controller's share of one core."""
    with tempfile.TemporaryDirectory() as folder:
        settings = [f"done={done}", f"sleeps_s={WINDOW_S + 5}", *(["quiet=1"] if quiet else [])]
        files = ["--snakefile", str(ROOT / "tests/workflow/waiting.smk"), "--directory", folder]
        command = [str(SNAKEMAKE), *files, "--cores", "2", *options, "--config", *settings]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            while not Path(folder, "sleeping").exists():
                if process.poll() is not None:
                    sys.exit(f"{' '.join(command)}: ended with {process.returncode} before a job was waited for")
                time.sleep(0.1)
            time.sleep(1.0)
            before_s, started_s = _processor_time_s(process.pid), time.monotonic()
            time.sleep(WINDOW_S)
            return (_processor_time_s(process.pid) - before_s) / (time.monotonic() - started_s)
        finally:
            process.kill()
            process.wait()


def _processor_time_s(process_id: int) -> float:
    """Return the processor time of a process, excluding its jobs."""
    fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
