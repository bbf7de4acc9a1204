"""Settings of the toy."""

from typing import ClassVar, Literal

from hpcai.config.base import Count, Settings
from hpcai.config.benchmark import BenchmarkSettings, DataSettings, RecipeSettings, Suite


class ToyData(DataSettings):
    """Rows of numbers with their sum."""

    numbers: Count = 4


class ToyModel(Settings):
    """One dense layer; there is nothing to choose."""


class ToyRecipe(RecipeSettings):
    """Plain gradient descent."""

    global_batch: Count = 4
    max_epochs: Count = 20
    learning_rate: float = 0.1


class ToyBenchmark(BenchmarkSettings):
    """One toy benchmark file."""

    suite: ClassVar[Suite] = "mlperf_hpc"
    stop: ClassVar[Literal["target", "epochs"]] = "target"
    remainder: ClassVar[Literal["refuse", "drop", "pad"]] = "refuse"
    native: ClassVar[bool] = True

    workload: Literal["toy"]
    data: ToyData
    model: ToyModel = ToyModel()
    recipe: ToyRecipe = ToyRecipe()
