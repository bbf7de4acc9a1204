"""Compare training steps of the engines, interleaved: one rank on all cores, real samples.

One rank exchanges nothing, so this shows how fast XLA (jax) computes against TensorFlow. The engines horovod and
tensorflow compute by the same code: their ratio shows the noise. `bench_exchange.py` compares all three on two ranks.

Each engine runs in its own process, because importing Keras fixes its backend, and takes its turn on request. Peer:
the engine horovod.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from plans import ENGINE_COLUMNS, ENGINES, OFFICIAL_DATA, Case, bench_plan, compare_engines, dataset_of

CASES = (
    Case("cosmoflow", "fp32", batch=1, rounds=3, steps=1, data=OFFICIAL_DATA["cosmoflow"]),
    Case("resnet50", "fp32", batch=8, rounds=3, steps=1, data=OFFICIAL_DATA["resnet50"]),
    Case("cosmoflow_tiny", "fp32", batch=4, rounds=7, steps=5),
    Case("resnet50_tiny", "fp32", batch=8, rounds=7, steps=5),
    Case("deepcam_tiny", "fp32", batch=2, rounds=7, steps=5),
)


def main() -> None:
    """Print a row per case and engine, or for the named cases; as a worker, time steps on request."""
    if len(sys.argv) > 1 and sys.argv[1] == "worker":
        work(sys.argv[2], sys.argv[3])
        return
    print(f"one rank, {len(os.sched_getaffinity(0))} cores")
    print(f"{'benchmark':20} batch rounds {ENGINE_COLUMNS}")
    for case in CASES:
        if not sys.argv[1:] or case.benchmark in sys.argv[1:]:
            _compare(case)


def _compare(case: Case) -> None:
    workers = {engine: _start(case, engine) for engine in ENGINES}
    for worker in workers.values():
        _answer(worker)  # compiles the step
    times_s: dict[str, list[float]] = {engine: [] for engine in ENGINES}
    for _ in range(case.rounds):
        for engine, worker in workers.items():
            times_s[engine].append(_ask(worker))
    for worker in workers.values():
        worker.communicate()
    for row in compare_engines(times_s):
        print(f"{case.benchmark:20} {case.batch:5} {case.rounds:6} {row}", flush=True)


def _start(case: Case, engine: str) -> "subprocess.Popen[str]":
    backend = {"KERAS_BACKEND": "jax" if engine == "jax" else "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "2"}
    return subprocess.Popen(
        [sys.executable, __file__, "worker", case.benchmark, engine],
        env={**os.environ, **backend},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _ask(worker: "subprocess.Popen[str]") -> float:
    assert worker.stdin is not None
    worker.stdin.write("go\n")
    worker.stdin.flush()
    return float(_answer(worker))


def _answer(worker: "subprocess.Popen[str]") -> str:
    assert worker.stdout is not None
    line = worker.stdout.readline()
    if not line:
        raise SystemExit(f"{worker.args}: ended without an answer")
    return line


def work(benchmark: str, engine: str) -> None:
    """Time steps of one engine for each line of input; write the time of one step [s]."""
    from hpcai.training import collective
    from hpcai.training.engines import steps_of

    case = next(case for case in CASES if case.benchmark == benchmark)
    threads = len(os.sched_getaffinity(0))
    machine = {"cores_per_node": threads, "cores_per_rank": threads, "ranks_per_node": 1}
    point = {"precision": case.precision, "global_batch": case.batch, "engine": engine}
    plan = bench_plan(benchmark, point, machine, case.data)
    modules = steps_of(plan.point.engine)
    modules.configure_device(plan.machine.device, threads, 0)
    collective.start(plan.point, engine)
    with tempfile.TemporaryDirectory() as folder:
        steps, batch = _prepared(modules, plan, Path(folder), threads)
    float(steps.train([batch]))
    print("ready", flush=True)
    for _ in sys.stdin:
        started_s = time.monotonic()
        for _ in range(case.steps):
            loss = steps.train([batch])
        float(loss)
        print((time.monotonic() - started_s) / case.steps, flush=True)


def _prepared(modules: Any, plan: Any, folder: Path, threads: int) -> tuple[Any, Any]:  # noqa: ANN401
    from hpcai.training.input import Reading, Schedule, train_batches
    from hpcai.training.registry import workload_of
    from hpcai.training.workload import seed_streams

    dataset = dataset_of(plan, folder, threads)
    workload = workload_of(plan, dataset.statistics)
    steps = modules.Engine(workload, seed_streams(1, 0))
    steps.warm_up()
    steps.set_learning_rate(workload.learning_rate(0))
    reading = Reading(workload.parse, workload.collate, plan.micro_batch, threads)
    return steps, next(iter(train_batches(dataset.samples("train"), reading, Schedule(1, 1, plan.micro_batch))))


if __name__ == "__main__":
    main()
