"""One rank of a training run: `python -m hpcai.training --plan plan.json --raw RAW --manifest ... --scratch ...`."""

import gc
import time

STARTED_S = time.monotonic()  # before the other imports, because their time counts
# Garbage collection among a million permanent objects takes a third of the time of imports and compilation. The loop
# re-enables it (`loop.collect_garbage_from_now_on`).
gc.disable()

import argparse  # noqa: E402
import importlib  # noqa: E402
import os  # noqa: E402
import signal  # noqa: E402
import socket  # noqa: E402
import sys  # noqa: E402
import threading  # noqa: E402
from pathlib import Path  # noqa: E402

from hpcai.config.base import Engine  # noqa: E402
from hpcai.config.plan_file import read_plan  # noqa: E402
from hpcai.core.errors import HpcaiError  # noqa: E402
from hpcai.core.lean_imports import NEEDLESS, without  # noqa: E402
from hpcai.data.stage_folder import clean_stage, own_stage  # noqa: E402
from hpcai.launchers.registry import local_rank_of  # noqa: E402
from hpcai.records.run import Placement  # noqa: E402
from hpcai.training.affinity import pin_to_own_cores  # noqa: E402
from hpcai.training.ending import leave, run_and_leave  # noqa: E402


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """Parse the command line's options."""
    parser = argparse.ArgumentParser(prog="python -m hpcai.training", description="One rank of a training run.")
    parser.add_argument("--plan", type=Path, required=True, help="plan.json of the run")
    parser.add_argument("--raw", type=Path, required=True, help="folder for what the ranks write")
    parser.add_argument("--manifest", type=Path, required=True, help="manifest.json of the dataset")
    parser.add_argument("--pack", type=Path, help="packed.json of the packed dataset, if it is to be staged")
    parser.add_argument("--scratch", type=Path, required=True, help="folder to stage to; each node adds its name")
    parser.add_argument("--shared-scratch", action="store_true", help="nodes are known to see the same scratch folder")
    parser.add_argument("--page-cache", choices=("dropped", "not_permitted", "kept"), required=True)
    parser.add_argument("--step-profiler", choices=("none", "tensorflow", "cuda", "input", "control"), default="none")
    return parser.parse_args(arguments)


def main() -> None:
    """Train as one rank; exit with status 0 only if the training reached its own end."""
    arguments = parse_arguments()
    plan = read_plan(arguments.plan)
    local_rank = local_rank_of(os.environ)
    _clean_when_told_to_end(own_stage(arguments.scratch), local_rank)
    cores = pin_to_own_cores(local_rank, plan.machine.cores_per_rank)
    _import_tensorflow(plan.point.engine)
    from hpcai.training.rank import run_rank  # TensorFlow starts its threads, so import it only now

    placement = Placement(
        rank=0,
        local_rank=local_rank,
        node_index=0,
        hostname=socket.gethostname(),
        device=plan.machine.device.kind,
        cores=cores,
        threads=len(cores),
    )
    run_rank(arguments, plan, placement, STARTED_S)


def _import_tensorflow(engine: Engine) -> None:
    """Import TensorFlow, and JAX if Keras computes with it, without modules that a rank never needs.

    TensorFlow is set to report only errors and to use oneDNN's kernels. Later code may still import what is left out
    here: the graphs' functions need SciPy's sparse matrices, and JAX needs them at once.
    """
    os.environ["KERAS_BACKEND"] = "jax" if engine == "jax" else "tensorflow"  # Keras reads it at import
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
    needed = ("jax", "scipy.sparse") if engine == "jax" else ()
    with without(*(name for name in NEEDLESS if name not in needed)):
        importlib.import_module(f"hpcai.training.collectives.{engine}")  # imports TensorFlow, and that Keras


def _clean_when_told_to_end(stage: Path, local_rank: int) -> None:
    """Remove staged data when the launcher ends this rank.

    The main thread may be waiting inside a gradient exchange, where no Python handler runs. So a dedicated thread waits
    for the signal, which all other threads block (they inherit the mask).
    """
    signals = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)

    def wait() -> None:
        number = signal.sigwait(signals)
        try:
            if local_rank == 0:
                clean_stage(stage)
        except HpcaiError as error:  # another rank may still be writing; the supervisor cleans up once more
            print(f"scratch: {error}", file=sys.stderr)
        finally:
            leave(128 + number)

    threading.Thread(target=wait, name="signals", daemon=True).start()


if __name__ == "__main__":
    run_and_leave(main)
