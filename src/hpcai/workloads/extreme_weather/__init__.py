"""Extreme Weather Analytics (HPC AI500): Faster R-CNN finds cyclones and atmospheric rivers."""

from hpcai.workloads.declaration import Declaration

WORKLOAD = Declaration(
    settings="settings:ExtremeWeatherBenchmark",
    data="data.module:ExtremeWeatherDataModule",
    training="training.workload:ExtremeWeather",
    title="Extreme Weather Analytics",
)
