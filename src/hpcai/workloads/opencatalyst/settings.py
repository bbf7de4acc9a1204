"""Settings of the OpenCatalyst workload (MLPerf HPC reference, open_catalyst/configs/mlperf_hpc.yml)."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from hpcai.config.base import Count, Index, Settings
from hpcai.config.benchmark import BenchmarkSettings, DataSettings, RecipeSettings, Suite

Metal = Literal["Al", "Ni", "Cu", "Pd", "Ag", "Pt", "Au"]
Facet = Literal["fcc111", "fcc100"]
Adsorbate = Literal["H", "C", "N", "O", "CO", "NO", "OH"]
Positive = Annotated[float, Field(gt=0)]


class SlabSettings(Settings):
    """What the generator builds (source: generate): periodic slabs with an adsorbate each."""

    metals: tuple[Metal, ...] = Field(default=("Al", "Ni", "Cu", "Pd", "Ag", "Pt", "Au"), min_length=1)
    facets: tuple[Facet, ...] = Field(default=("fcc111", "fcc100"), min_length=1)
    adsorbates: tuple[Adsorbate, ...] = Field(default=("H", "C", "N", "O", "CO", "NO", "OH"), min_length=1)
    systems: Count = Field(default=64, description="Different slabs with adsorbate; each sample is a frame of one.")
    rattle_angstrom: Positive = Field(
        default=0.05, le=0.5, description="Standard deviation of the free slab atoms' displacement from equilibrium."
    )
    displacement_angstrom: Positive = Field(
        default=0.1, le=0.5, description="Standard deviation of the adsorbate's displacement as a whole."
    )


class GraphCapacity(Settings):
    """Room per sample in a batch; batches have a fixed shape, whatever graphs they hold.

    A batch of n samples has room for n times as much; a batch that needs more ends the run with an error.
    """

    atoms: Count
    edges: Count


class OpenCatalystData(DataSettings):
    """Graphs of atoms with energies and forces."""

    cutoff_angstrom: Positive = Field(default=6.0, description="Longest edge; the model's envelope ends there too.")
    max_neighbours: Count = Field(default=50, description="Nearest neighbours that an atom keeps.")
    samples_per_file: Count = Field(default=4096, description="Graphs of one LMDB file (source: generate).")
    capacity: GraphCapacity | None = Field(
        default=None, description="Blank: from the graph sizes in the dataset's manifest."
    )
    slabs: SlabSettings = SlabSettings()


class OpenCatalystModel(Settings):
    """DimeNet++; the defaults are the official network of 1,810,182 parameters."""

    hidden: Count = 192
    output_hidden: Count = Field(default=192, description="Width of the output blocks.")
    blocks: Count = Field(default=3, description="Interaction blocks; there is one output block more.")
    interaction_hidden: Count = Field(default=64, description="Width of the messages between edges.")
    basis_hidden: Count = Field(default=8, description="Width between the two factors of a basis transformation.")
    radial: Count = 6
    spherical: Annotated[int, Field(ge=1, le=7)] = 7
    layers_before_skip: Index = 1
    layers_after_skip: Index = 2
    output_layers: Index = 3
    envelope_exponent: Count = Field(
        default=5, description="The envelope's polynomial begins with the power p = 1 + this."
    )


class OpenCatalystRecipe(RecipeSettings):
    """Optimizer, learning-rate schedule and stop rule; steps are optimizer steps."""

    optimizer: Literal["adamw"] = "adamw"
    global_batch: Count = 256
    base_learning_rate: Positive = 0.0004
    warmup_steps: Index = 31_252
    warmup_factor: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.2, description="Part of the base learning rate at the start of the warm-up."
    )
    decay_steps: tuple[Count, ...] = (125_008, 187_512, 250_016)
    decay_factor: Annotated[float, Field(gt=0, le=1)] = 0.1
    weight_decay: Annotated[float, Field(ge=0)] = Field(default=0.01, description="Decoupled, on every parameter.")
    force_coefficient: Positive = 50.0
    force_standard_deviation: Positive | Literal["training"] = Field(
        default=2.887317180633545,
        description="Unit of the forces inside the model, eV/A; training: that of the training data's forces.",
    )
    max_epochs: Count = 30

    @model_validator(mode="after")
    def _decay_steps_grow(self) -> "OpenCatalystRecipe":
        if list(self.decay_steps) != sorted(set(self.decay_steps)):
            raise ValueError("decay_steps must grow")
        return self


class OpenCatalystBenchmark(BenchmarkSettings):
    """One OpenCatalyst benchmark file."""

    suite: ClassVar[Suite] = "mlperf_hpc"
    stop: ClassVar[Literal["target", "epochs"]] = "target"
    remainder: ClassVar[Literal["refuse", "drop", "pad"]] = "pad"
    native: ClassVar[bool] = False

    workload: Literal["opencatalyst"]
    data: OpenCatalystData
    model: OpenCatalystModel = OpenCatalystModel()
    recipe: OpenCatalystRecipe = OpenCatalystRecipe()
