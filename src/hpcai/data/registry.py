"""From the workload's name in a benchmark file to its data module; only the one in use is imported."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from hpcai.config.benchmark import DataSettings
from hpcai.config.workloads import BENCHMARKS
from hpcai.data.module import DataModule
from hpcai.errors import ConfigError

DATA_MODULES = {
    "image_classification": "hpcai.data.image_classification.module:ImageClassificationDataModule",
    "extreme_weather": "hpcai.data.extreme_weather.module:ExtremeWeatherDataModule",
    "cosmoflow": "hpcai.data.cosmoflow.module:CosmoFlowDataModule",
    "deepcam": "hpcai.data.deepcam.module:DeepCamDataModule",
    "opencatalyst": "hpcai.data.opencatalyst.module:OpenCatalystDataModule",
}


def data_module(workload: str, settings: DataSettings | Mapping[str, object]) -> DataModule[Any]:
    """Return the data module of a workload.

    Parameters
    ----------
    workload
        Name of the workload.
    settings
        The benchmark file's section ``data``, checked or as plain values.

    Raises
    ------
    ConfigError
        If there is no such workload.
    """
    if workload not in DATA_MODULES:
        raise ConfigError(f"workload: found {workload!r}, expected one of {', '.join(DATA_MODULES)}")
    name, attribute = DATA_MODULES[workload].split(":")
    module: type[DataModule[Any]] = getattr(import_module(name), attribute)
    model = BENCHMARKS[workload].model_fields["data"].annotation
    assert model is not None, "every benchmark has a section `data`"
    return module(model.model_validate(settings))
