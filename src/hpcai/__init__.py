"""HPC-AI Bench: the library behind the workflow, independent of Snakemake."""
