"""The HPC-AI roofline: ceilings, points, and moves between points."""
