"""Step time with 1, 2, 4 and 8 messages of gradients (`gradient_groups`) on two ranks, measured and predicted.

Interleaved: each round trains with each number of groups in turn. The prediction starts from one message: the measured
allreduce calls of that size (`hpcai predict scale --groups N` does the same for a study), of which on one core per rank
only the waiting happens during the backward pass.
"""

import statistics
import sys
import tempfile
from pathlib import Path

import pandas as pd
from plans import bench_plan, launch_ranks, prepared, time_step

from hpcai.machine.ceilings.allreduce import measure_allreduce
from hpcai.metrics.profiles.link import CALL, TRANSFER, AllreduceReport
from hpcai.predict.messages import Gradients
from hpcai.predict.scales.exchange import exchange_time
from hpcai.predict.scales.model import BACKWARD_RATIO, exposed_exchange_s
from hpcai.predict.what_if.step_model import Setting

GROUPS, ROUNDS, RANKS = (1, 2, 4, 8), 5, 2
CASES = {
    "cosmoflow_tiny": 64,
    "deepcam_tiny": 4,
    "extreme_weather_tiny": 16,
    "opencatalyst_tiny": 32,
    "resnet50_tiny": 128,
}
"""Global batch of each benchmark, as in the default study."""


def main() -> None:
    """Print a row for each benchmark and number of groups; benchmarks may be named."""
    asked = sys.argv[1:] or list(CASES)
    links = _links(measure_allreduce([*launch_ranks(RANKS), sys.executable], 1))
    print(f"{RANKS} ranks; medians over {ROUNDS} interleaved rounds; ratio: to one message")
    print("benchmark             groups  step_ms  ratio  smallest  largest  predicted_ms   error")
    with tempfile.TemporaryDirectory() as folder:
        for benchmark in asked:
            data = prepared(_plan(benchmark, 1), Path(folder) / benchmark)
            rounds = []
            for number in range(ROUNDS):
                places = {groups: Path(folder) / f"{benchmark}_{groups}_{number}" for groups in GROUPS}
                rounds.append([time_step(_plan(benchmark, groups), data, places[groups])[0] for groups in GROUPS])
            parameters = time_step(_plan(benchmark, 1), data, Path(folder) / f"{benchmark}_parameters")[1]
            _print(benchmark, rounds, _predict(links, benchmark, parameters, rounds))


def _plan(benchmark: str, groups: int):  # noqa: ANN202  a plan
    point = {"ranks_per_node": RANKS, "global_batch": CASES[benchmark], "gradient_groups": groups}
    return bench_plan(benchmark, point, {"cores_per_rank": 1, "ranks_per_node": RANKS})


def _links(report: AllreduceReport) -> pd.DataFrame:
    rows = [
        {
            "what": what,
            "engine": report.engine,
            "scope": "node",
            "ranks": RANKS,
            "bytes": one.size_bytes,
            "time_s": time_s,
        }
        for one in report.samples
        for what, time_s in ((CALL, one.duration_s), (TRANSFER, one.transfer_s))
        if time_s
    ]
    return pd.DataFrame(rows)


def _predict(links: pd.DataFrame, benchmark: str, parameters: int, rounds: list[list[float]]) -> list[float]:
    """Return the step by number of groups [s]: computing is what one message leaves of its step."""
    settings = [Setting(1, RANKS, CASES[benchmark], "fp32", "none", gradient_groups=groups) for groups in GROUPS]
    # Each benchmark has more gradients than groups, so their sizes do not matter: messages count with their mean.
    gradients = Gradients(parameters, (parameters // max(GROUPS),) * max(GROUPS))
    exchanges = [exchange_time(links, "horovod", setting, gradients, float("nan")) for setting in settings]
    compute_s = statistics.median(row[0] for row in rounds) - exchanges[0].calls_s
    return [compute_s + exposed_exchange_s(one, compute_s * BACKWARD_RATIO, shared_core=True) for one in exchanges]


def _print(benchmark: str, rounds: list[list[float]], predicted_s: list[float]) -> None:
    for place, groups in enumerate(GROUPS):
        step_s = statistics.median(row[place] for row in rounds)
        ratios = [row[place] / row[0] for row in rounds]
        print(
            f"{benchmark:22}{groups:6} {step_s * 1e3:8.2f} {statistics.median(ratios):6.2f} {min(ratios):9.2f} "
            f"{max(ratios):8.2f} {predicted_s[place] * 1e3:13.2f} {predicted_s[place] / step_s - 1:+7.1%}",
            flush=True,
        )


if __name__ == "__main__":
    main()
