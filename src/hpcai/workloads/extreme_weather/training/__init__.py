"""Extreme Weather Analytics of HPC AI500: Faster R-CNN with a ResNet-50 and a feature pyramid."""
