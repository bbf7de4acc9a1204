"""Settings of the CosmoFlow workload (MLPerf HPC reference, cosmoflow/configs/cosmo.yaml and models/cosmoflow.py)."""

from typing import Annotated, ClassVar, Literal, NamedTuple

from pydantic import Field, model_validator

from hpcai.config.base import Count, Engine, Ratio, Settings
from hpcai.config.benchmark import BenchmarkSettings, DataSettings, PartTraffic, RecipeSettings, Suite
from hpcai.core.messages import Message

ODD_PLANES = Message(
    "cosmoflow.odd_planes",
    "at most {most}: each part of an edge of {edge} needs an even number of planes and rows at each of {pools} pools",
)

NO_EPOCH_TO_FALL = Message(
    "cosmoflow.no_epoch_to_fall", "warmup_epochs: {warmup} leaves none of max_epochs = {epochs} to the schedule linear"
)

Range = Annotated[tuple[float, float], Field(description="Lowest and highest value; -1 and 1 in the targets' unit.")]


class Priors(Settings):
    """Ranges from which the generator draws the four parameters of a universe."""

    omega_m: Range = (0.1, 0.5)
    sigma_8: Range = (0.5, 1.1)
    n_s: Range = (0.5, 1.5)
    h_0: Range = (50.0, 90.0)

    @model_validator(mode="after")
    def _ranges_grow(self) -> "Priors":
        for name in type(self).model_fields:
            low, high = getattr(self, name)
            if not 0 < low < high:
                raise ValueError(f"{name}: two positive numbers are allowed, the smaller first")
        return self


class CosmoFlowData(DataSettings):
    """Cubes of particle counts at four redshifts."""

    edition: Literal["gzip", "plain"] = Field(default="gzip", description="gzip since v1.0; plain in v0.7.")
    edge: Literal[16, 32, 64, 128] = Field(description="Edge of a cube in voxels; 128 is the official size.")
    channels: Literal[4] = 4
    priors: Priors = Priors()


class CosmoFlowModel(Settings):
    """The 3-D convolutional network; the defaults are the official one of v1.0 and later."""

    kernel: Literal[2, 3] = Field(default=3, description="3 since v1.0; 2 in v0.7.")
    conv_layers: int = Field(default=5, ge=1, le=7)
    base_filters: Count = Field(default=32, description="Filters of the first layer, doubled in each next one.")
    dense: tuple[Count, Count] = (128, 64)
    dropout: Ratio = 0.5


class CosmoFlowRecipe(RecipeSettings):
    """Optimizer, learning-rate schedule and stop rule."""

    unwritten: ClassVar[tuple[str, ...]] = (*RecipeSettings.unwritten, "schedule", "augmentation")

    optimizer: Literal["sgd"] = "sgd"
    momentum: Ratio = 0.9
    global_batch: Count = 64
    base_batch: Count = Field(default=64, description="Global batch for which the base learning rate holds.")
    base_learning_rate: float = Field(default=0.001, gt=0)
    scaling: Literal["linear", "sqrt", "none"] = "linear"
    warmup_epochs: int = Field(default=4, ge=0)
    schedule: Literal["step", "linear"] = Field(
        default="step",
        description="After the warm-up: factors of the peak from decay_epochs on, or a straight line that reaches 0 "
        "after max_epochs (an open-division choice).",
    )
    decay_epochs: tuple[Count, ...] = (32, 64)
    decay_factors: tuple[Annotated[float, Field(gt=0, lt=1)], ...] = (0.25, 0.125)
    weight_decay: float = Field(default=0.0, ge=0, description="L2 penalty on the two hidden dense kernels.")
    max_epochs: Count = 128
    augmentation: Literal["none", "symmetries"] = Field(
        default="none",
        description="symmetries: each training cube is turned and mirrored at random, one of 48 ways (an open-division "
        "choice).",
    )

    @model_validator(mode="after")
    def _decay_is_consistent(self) -> "CosmoFlowRecipe":
        if len(self.decay_epochs) != len(self.decay_factors):
            raise ValueError("decay_epochs and decay_factors must have the same length")
        if list(self.decay_epochs) != sorted(set(self.decay_epochs)):
            raise ValueError("decay_epochs must grow")
        if self.schedule == "linear" and self.warmup_epochs >= self.max_epochs:
            raise ValueError(NO_EPOCH_TO_FALL(warmup=self.warmup_epochs, epochs=self.max_epochs))
        return self


class PartGrid(NamedTuple):
    """Numbers of parts of a cube along its depth and along its rows."""

    depth: int
    rows: int

    @property
    def parts(self) -> int:
        """Number of ranks that share a cube."""
        return self.depth * self.rows

    def place(self, part: int) -> tuple[int, int]:
        """Return where a part lies along the depth and along the rows."""
        return divmod(part, self.rows)

    def neighbours(self, axis: int) -> list[tuple[int, int]]:
        """Return all pairs of parts of which the second follows the first along depth (1) or rows (2)."""
        along, step = self[axis - 1], self.rows if axis == 1 else 1
        return [(part, part + step) for part in range(self.parts) if self.place(part)[axis - 1] < along - 1]


class CosmoFlowBenchmark(BenchmarkSettings):
    """One CosmoFlow benchmark file."""

    suite: ClassVar[Suite] = "mlperf_hpc"
    stop: ClassVar[Literal["target", "epochs"]] = "target"
    remainder: ClassVar[Literal["refuse", "drop", "pad"]] = "refuse"
    native: ClassVar[bool] = True
    engines: ClassVar[tuple[Engine, ...]] = ("horovod", "tensorflow", "jax")

    workload: Literal["cosmoflow"]
    data: CosmoFlowData
    model: CosmoFlowModel = CosmoFlowModel()
    recipe: CosmoFlowRecipe = CosmoFlowRecipe()

    def refuse_parts(self, parts: int) -> str:
        """Return why cubes cannot be split into this many parts along depth and rows: a pool would span two parts."""
        most = self._most_along_an_edge**2
        if parts <= most:
            return ""
        return ODD_PLANES(pools=self.model.conv_layers, most=most, edge=self.data.edge)

    @property
    def _most_along_an_edge(self) -> int:
        return self.data.edge >> self.model.conv_layers

    def part_grid(self, parts: int) -> PartGrid:
        """Return how many parts lie along depth and rows.

        Along the depth as many as the pools allow, because planes lie together in a file.
        """
        depth = min(parts, self._most_along_an_edge)
        return PartGrid(depth, parts // depth)

    def part_traffic(self, parts: int) -> PartTraffic:
        """Return the planes exchanged around each convolution, and the last planes, which every rank gathers.

        The first convolution needs no gradient of its input. Each boundary between parts carries ``kernel - 1`` planes
        of each input forward, and as many back. Rows travel after planes, and with those of the neighbours' planes.
        """
        model, grid = self.model, self.part_grid(parts)
        edge: int = self.data.edge
        channels: int = self.data.channels
        if parts == 1:
            return PartTraffic()
        before, behind = (model.kernel - 1) // 2, model.kernel // 2
        sent = sent_at_most = 0.0
        for block in range(model.conv_layers):
            plane = edge // grid.rows * edge * channels
            row = (edge // grid.depth + before + behind) * edge * channels
            for size, along in ((plane, grid.depth), (row, grid.rows)):
                # Of two parts the later sends what the other needs behind it, and the gradient of what it got before.
                forward, back = {1: (0, 0), 2: (behind, before)}.get(along, (before + behind, before + behind))
                sent += size * (forward if block == 0 else forward + back)
                sent_at_most += size * (along > 1) * behind * (1 if block == 0 else 2)
            edge, channels = edge // 2, model.base_filters * 2**block
        return PartTraffic(sent, sent_at_most, edge**3 * channels / parts)

    @model_validator(mode="after")
    def _cube_survives_the_pools(self) -> "CosmoFlowBenchmark":
        if self.data.edge >> self.model.conv_layers < 1:
            raise ValueError(
                f"model.conv_layers: {self.model.conv_layers} poolings halve an edge of {self.data.edge} below 1"
            )
        return self
