"""DeepCAM (MLPerf HPC): DeepLabv3+ finds the pixels of cyclones and atmospheric rivers."""

from hpcai.workloads.declaration import Declaration

WORKLOAD = Declaration(
    settings="settings:DeepCamBenchmark",
    data="data.module:DeepCamDataModule",
    training="training.workload:DeepCam",
    title="DeepCAM",
    mlperf="mlperf:MLPERF",
)
