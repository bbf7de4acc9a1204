"""CosmoFlow (MLPerf HPC): a 3-D convolutional network estimates cosmological parameters from dark matter."""

from hpcai.workloads.declaration import Declaration, DeviceCase

WORKLOAD = Declaration(
    settings="settings:CosmoFlowBenchmark",
    data="data.module:CosmoFlowDataModule",
    training="training:CosmoFlow",
    title="CosmoFlow",
    mlperf="mlperf:MLPERF",
    device_case=DeviceCase(official=("cosmoflow", 16), tiny=("cosmoflow_tiny", 4), bf16_goal_ratio=0.50),
)
