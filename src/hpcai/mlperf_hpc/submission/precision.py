"""What a submission says of the numbers that its runs computed with."""

from hpcai.config.runs import RunPlan
from hpcai.core.messages import Message

WHOLE = Message("precision.whole", "all in fp32")
BY_TENSORFLOW = Message(
    "precision.by_tensorflow",
    "fp32, with products of matrices and convolutions in TF32 on accelerators that have it (Ampere or newer), as is "
    "TensorFlow's default; no record observes it",
)
BY_JAX = Message("precision.by_jax", "fp32, with products of matrices and convolutions in TF32")
MIXED = Message("precision.mixed", "variables and optimizer in fp32, layers compute in {precision}")


def say_precision(plan: RunPlan) -> str:
    """Return the types of the numbers that a run computed with, as far as its plan tells.

    TensorFlow takes TF32 for fp32 by itself, JAX only if the plan asks for it.
    """
    point, precision = plan.point, plan.point.precision
    if precision == "tf32":
        return BY_JAX()
    if precision != "fp32":
        return MIXED(precision=precision)
    return BY_TENSORFLOW() if point.engine != "jax" and plan.machine.device.kind == "gpu" else WHOLE()
