"""CosmoFlow (MLPerf HPC): a 3-D convolutional network finds the parameters of a universe in its dark matter."""

from hpcai.workloads.declaration import Declaration

WORKLOAD = Declaration(
    settings="settings:CosmoFlowBenchmark",
    data="data.module:CosmoFlowDataModule",
    training="training:CosmoFlow",
    mlperf="mlperf:MLPERF",
)
