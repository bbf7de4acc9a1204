"""The HPC-AI roofline: ceilings, points, and what moves them."""
