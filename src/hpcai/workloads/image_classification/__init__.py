"""Image classification (HPC AI500): ResNet-50 v1.5 on ImageNet."""

from hpcai.workloads.declaration import Declaration

WORKLOAD = Declaration(
    settings="settings:ImageClassificationBenchmark",
    data="data.module:ImageClassificationDataModule",
    training="training.workload:ImageClassification",
)
