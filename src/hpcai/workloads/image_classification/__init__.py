"""Image classification (HPC AI500): ResNet-50 v1.5 on ImageNet."""

from hpcai.workloads.declaration import Declaration, DeviceCase

WORKLOAD = Declaration(
    settings="settings:ImageClassificationBenchmark",
    data="data.module:ImageClassificationDataModule",
    training="training.workload:ImageClassification",
    title="Image classification",
    device_case=DeviceCase(official=("resnet50", 256), tiny=("resnet50_tiny", 8), bf16_goal_ratio=0.40),
)
