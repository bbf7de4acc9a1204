"""Building blocks of the settings: strict models, shell-safe names and paths."""

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints


class Settings(BaseModel):
    """A frozen group of settings in which unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,39}$")]
"""Part of a path or a label: lower-case letters, digits and underscores, starting with a letter."""

SafePath = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_./${}+=,@%-]{1,1000}$")]
"""A path without blanks or shell syntax; ``${VARIABLE}`` is replaced on the machine that uses it."""


def _one_printable_line(text: str) -> str:
    if not text.isprintable():
        raise ValueError("a single line of printable text is allowed")
    return text


Text = Annotated[str, StringConstraints(max_length=500), AfterValidator(_one_printable_line)]
"""A sentence for people: shown, never executed and never part of a path."""

FolderPath = Annotated[str, StringConstraints(min_length=1, max_length=1000), AfterValidator(_one_printable_line)]
"""A folder that no shell reads unquoted, of any printable characters; ``${VARIABLE}`` is replaced on use."""

LARGEST_COUNT = 2**53 - 1
"""Largest count that tables and JSON hold exactly; numbers beyond 4,300 digits cannot even be printed."""
Count = Annotated[int, Field(ge=1, le=LARGEST_COUNT, strict=True)]
Index = Annotated[int, Field(ge=0, le=LARGEST_COUNT, strict=True)]
Seed = Annotated[int, Field(ge=1, lt=2**31, strict=True)]
Ratio = Annotated[float, Field(ge=0, lt=1)]
Compression = Literal["none", "fp16"]
"""Compression of gradients in the allreduce."""
Engine = Literal["horovod", "tensorflow", "jax"]
"""Library that exchanges tensors between ranks, one module of `hpcai.training.collectives` each; jax also computes."""
AllreduceTopology = Literal["default", "ring", "tree", "hierarchical"]
"""Topology of the allreduce; ``default``: the libraries choose."""
EvaluationCache = Literal["none", "memory", "node_local"]
TrainingCache = Literal["none", "memory"]
SpatialParts = Literal[1, 2, 4, 8, 16]
"""Ranks that share a sample, each with an equal part of it."""
