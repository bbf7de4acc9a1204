"""OpenCatalyst (MLPerf HPC): DimeNet++ predicts the forces on atoms."""

from hpcai.workloads.declaration import Declaration

WORKLOAD = Declaration(
    settings="settings:OpenCatalystBenchmark",
    data="data.module:OpenCatalystDataModule",
    training="training.workload:OpenCatalyst",
    title="OpenCatalyst",
    mlperf="mlperf:MLPERF",
)
