"""Image classification: ResNet-50 v1.5 and its recipe (HPC AI500 V2.0)."""
