"""Printed numbers of a source that follow from its other numbers: which ones to recompute, and with which tolerance."""

from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from hpcai.config.base import Name, Ratio, Settings, Text
from hpcai.core.units import to_si

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
"""A number in the unit at the end of the key's name."""
Sentence = Annotated[Text, Field(min_length=1)]
Found = Literal["source", "reference"]
"""Origin of a number: printed in the source, or derived in our reference from the source's printed values."""

Quantity = Literal[
    "rate_flop_per_s", "vflops_flop_per_s", "communication_roof_flop_per_s", "single_link_roof_flop_per_s",
    "flop_per_sample", "profiled_flop_per_sample", "flop_per_parameter", "flop_per_byte",
    "quality_coefficient_ratio", "implied_quality", "peak_ratio", "fp32_peak_ratio", "gain_ratio", "efficiency_ratio",
    "ceiling_flop_per_s", "coefficient_gain_ratio", "negotiation_ratio", "negotiation_gain_ratio",
    "negotiation_share_gain_ratio", "wait_s", "exchange_ratio", "other_ratio",
]  # fmt: skip
"""Quantities compared with a printed number: see `hpcai.metrics.scores.declared_checks`."""
AGAINST: tuple[Quantity, ...] = (
    "gain_ratio", "efficiency_ratio", "negotiation_gain_ratio", "negotiation_share_gain_ratio",
)  # fmt: skip
"""Quantities of two results: `against` names the second one."""


def unit_of(quantity: str) -> str:
    """Return the unit of a quantity; "" for a ratio."""
    if quantity.endswith("_flop_per_s"):
        return "FLOP/s"
    counts = {
        "flop_per_sample": "FLOP/sample",
        "profiled_flop_per_sample": "FLOP/sample",
        "flop_per_parameter": "FLOP/parameter",
        "flop_per_byte": "FLOP/B",
        "wait_s": "s",
    }
    return counts.get(quantity, "")


class Printed(Settings):
    """A printed number of the source that follows from its inputs and is recomputed."""

    quantity: Quantity
    value: float | None = Field(default=None, description='In SI units, or as text with its unit: "58 TFLOP/s".')
    lowest: float | None = None
    highest: float | None = None
    against: Name | None = Field(default=None, description="The other result, for a gain or an efficiency.")
    tolerance_ratio: Ratio = Field(default=0.01, description="Largest relative difference from `value`.")
    tolerance: Positive | None = Field(default=None, description="Largest absolute difference, instead of the ratio.")
    consistent: bool = Field(default=True, description="False: known to contradict the source's inputs.")
    where: Sentence = Field(description="Table, figure or section that prints it.")
    found: Found = "source"
    note: Text = ""

    @field_validator("value", mode="before")
    @classmethod
    def _has_its_unit(cls, value: object, info: ValidationInfo) -> object:
        unit = unit_of(str(info.data.get("quantity")))
        return to_si(value, unit) if isinstance(value, str) and unit in ("FLOP/s", "s") else value

    @model_validator(mode="after")
    def _can_be_compared(self) -> "Printed":
        if self.value is None and (self.lowest is None or self.highest is None):
            raise ValueError("a value, or lowest and highest")
        if (self.quantity in AGAINST) != (self.against is not None):
            raise ValueError(f"'against' names the other result for {', '.join(AGAINST)}, and for nothing else")
        if not self.consistent and not self.note:
            raise ValueError("a contradiction of the source (consistent: false) needs a note that explains it")
        return self
