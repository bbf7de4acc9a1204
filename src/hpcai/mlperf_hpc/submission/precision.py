"""What a submission says of the numbers that its runs computed with."""

from hpcai.config.runs import RunPlan
from hpcai.core.messages import Message

WHOLE = Message("precision.whole", "all in fp32")
IN_TF32 = Message("precision.in_tf32", "fp32, with products of matrices and convolutions in TF32")
MIXED = Message("precision.mixed", "variables and optimizer in fp32, layers compute in {precision}")


def say_precision(plan: RunPlan) -> str:
    """Return the types of the numbers that a run computed with, as its plan asks."""
    precision = plan.point.precision
    if precision == "fp32":
        return WHOLE()
    return IN_TF32() if precision == "tf32" else MIXED(precision=precision)
