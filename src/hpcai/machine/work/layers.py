"""The layers of a benchmark as the model of data-parallel training takes them: kinds, shapes, parameters."""

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpcai.config.load import read_plan
from hpcai.config.runs import RunPlan
from hpcai.machine.work.step import Statistics, read_statistics, workload_of_one_rank, write_report
from hpcai.predict.training.layers import LayerList

if TYPE_CHECKING:
    from hpcai.training.workload import Workload

MODELLED_OPTIMIZERS = ("SGD", "MomentumSGD")
"""The model of the update is gradient descent with momentum."""


def list_layers(plan: RunPlan, statistics: Statistics | None = None) -> LayerList:
    """Return the layers of a plan's model for one sample, from the graph of its training loss.

    Nothing is executed: the model is built and its loss is traced for the micro-batch of one rank.

    Parameters
    ----------
    plan
        What is trained.
    statistics
        Numbers about the training data from the manifest; only graphs need them.

    Returns
    -------
    LayerList
        Its convolutions and dense layers do the multiply-adds of `hpcai.training.workload.Workload.batch_layers`: of a
        batch as it is compiled, with what fills up a batch of graphs. The parameters are all trainable ones.

    Raises
    ------
    HpcaiError
        If the model cannot be built from what is given.
    """
    from hpcai.machine.work.layers_graph import read_layers
    from hpcai.machine.work.layers_trace import trace_step

    workload = workload_of_one_rank(plan, statistics)
    read = read_layers(trace_step(workload))
    benchmark = plan.benchmark
    return LayerList(
        name=benchmark.name,
        title=benchmark.title,
        samples_per_epoch=benchmark.data.train_samples,
        layers=read.layers,
        source=f"graph of the training loss of {benchmark.name} as TensorFlow traces it",
        not_modelled=(*read.not_modelled, *_optimizer(workload)),
    )


def _optimizer(workload: "Workload[Any]") -> tuple[str, ...]:
    name = type(workload.build_optimizer()).__name__
    if name in MODELLED_OPTIMIZERS:
        return ()
    return (f"optimizer {name}: the update is modelled as gradient descent with momentum",)


def main(arguments: list[str] | None = None) -> None:
    """Write the layers of a plan's model as JSON."""
    parser = argparse.ArgumentParser(prog="python -m hpcai.machine.work.layers", description=main.__doc__)
    parser.add_argument("--plan", type=Path, required=True, help="plan.json of a run")
    parser.add_argument("--manifest", type=Path, help="manifest.json of the dataset; only graphs need it")
    parser.add_argument("--output", type=Path, help="file for the list; by default it is printed")
    given = parser.parse_args(arguments)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    # Tracing needs no accelerator and must not take one from a run.
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    write_report(list_layers(read_plan(given.plan), read_statistics(given.manifest)), given.output)


if __name__ == "__main__":
    main()
