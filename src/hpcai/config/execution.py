"""Checks of the execution of a point: evaluation, caches, and topology of the allreduce."""

from collections.abc import Iterator

from hpcai.config.machine import Machine
from hpcai.config.runs import Point
from hpcai.config.workloads import Benchmark
from hpcai.core.messages import Message

EVALUATION_TOO_LARGE = Message(
    "execution.evaluation_too_large", "at most the {most} validation samples of a rank of {benchmark!r}"
)
NO_TOPOLOGY_ON_PROCESSORS = Message(
    "execution.no_topology_on_processors",
    "default: ring, tree and hierarchical are ways between accelerators, and {machine!r} has none",
)
HIERARCHICAL_BY_HOROVOD = Message(
    "execution.hierarchical_by_horovod", "default, ring or tree: hierarchical is Horovod's, and the engine is {engine}"
)
NO_TOPOLOGY_OF_TENSORFLOW = Message(
    "execution.no_topology_of_tensorflow",
    "default: ring and tree are NCCL's, hierarchical is Horovod's, and the engine tensorflow uses neither",
)
NO_SKIPPING_BY_FP16 = Message(
    "execution.no_skipping_by_fp16",
    "fp32, tf32 or bf16: fp16 scales the gradients, whose norm recipe.skip_gradient_norm of {benchmark!r} limits",
)
WHOLE_CUBES = Message("execution.whole_cubes", "1: recipe.augmentation of {benchmark!r} turns whole samples")


def check_execution(benchmark: Benchmark, machine: Machine, row: Point) -> Iterator[tuple[str, object, str]]:
    """Yield column, found value and allowed values for each impossible setting of a point.

    Parameters
    ----------
    benchmark, machine
        What the point trains, and where.
    row
        The point; its ranks make whole replicas.
    """
    most = -(-benchmark.data.validation_samples // row.replicas)
    if row.evaluation_batch is not None and row.evaluation_batch > most:
        yield "evaluation_batch", row.evaluation_batch, EVALUATION_TOO_LARGE(most=most, benchmark=benchmark.name)
    if row.allreduce_topology != "default" and machine.device.kind == "cpu":
        yield "allreduce_topology", row.allreduce_topology, NO_TOPOLOGY_ON_PROCESSORS(machine=machine.name)
    elif row.allreduce_topology != "default" and row.engine == "tensorflow":
        yield "allreduce_topology", row.allreduce_topology, NO_TOPOLOGY_OF_TENSORFLOW()
    elif row.allreduce_topology == "hierarchical" and row.engine != "horovod":
        yield "allreduce_topology", row.allreduce_topology, HIERARCHICAL_BY_HOROVOD(engine=row.engine)
    if row.precision == "fp16" and benchmark.recipe.skip_gradient_norm:
        yield "precision", row.precision, NO_SKIPPING_BY_FP16(benchmark=benchmark.name)
    if row.spatial_parts > 1 and getattr(benchmark.recipe, "augmentation", "none") != "none":
        yield "spatial_parts", row.spatial_parts, WHOLE_CUBES(benchmark=benchmark.name)
