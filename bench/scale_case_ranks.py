"""One rank of `bench_scale_cases.py`: trains one plan after another, without starting again for each.

All plans of a session have the same ranks, fusion threshold and cycle, which Horovod reads once, at its start.
"""

import gc
import importlib
import json
import os
import sys
import time
from pathlib import Path

from hpcai.config.plan_file import read_plan
from hpcai.config.runs import RunPlan
from hpcai.launchers.registry import local_rank_of
from hpcai.training.affinity import pin_to_own_cores
from hpcai.training.ending import run_and_leave


def main() -> None:
    """Train the plans of the session file that the command line names."""
    session = json.loads(Path(sys.argv[1]).read_text())
    folders = [Path(one) for one in session["folders"]]
    plans = [read_plan(folder / "plan.json") for folder in folders]
    local_rank = local_rank_of(os.environ)
    cores = pin_to_own_cores(local_rank, plans[0].machine.cores_per_rank)
    os.environ |= {"KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "2", "TF_ENABLE_ONEDNN_OPTS": "1"}
    engine = plans[0].point.engine
    importlib.import_module(f"hpcai.training.collectives.{engine}")  # imports TensorFlow, and that Keras
    from hpcai.training import collective
    from hpcai.training.engines import steps_of

    steps_of(engine).configure_device(plans[0].machine.device, len(cores), local_rank)
    ranks = collective.start(plans[0].point, engine)
    for plan, folder in zip(plans, folders, strict=True):
        _train(plan, folder, ranks, (Path(session["manifest"]), Path(session["pack"])), len(cores))
    collective.stop()


def _train(plan: RunPlan, folder: Path, ranks, data: tuple[Path, Path], threads: int) -> None:  # noqa: ANN001
    import keras

    from hpcai.training.dataset import Dataset, Sources
    from hpcai.training.journal import Journal
    from hpcai.training.loop import Outputs, Start, Training
    from hpcai.training.mlperf_log import MlperfLog
    from hpcai.training.registry import workload_of
    from hpcai.training.step_profiler import step_profiler

    dataset = Dataset(plan, ranks, Sources(*data, folder / "scratch"), threads)
    outputs = Outputs(
        Journal(folder, ranks.is_first),
        MlperfLog(folder / "mllog.txt", ranks.is_first),
        step_profiler("none", folder, ranks.rank),
    )
    Training(workload_of(plan, dataset.statistics), ranks, dataset, outputs).run(Start(time.monotonic(), False))
    dataset.clean()
    keras.backend.clear_session()
    gc.collect()


if __name__ == "__main__":
    run_and_leave(main)
