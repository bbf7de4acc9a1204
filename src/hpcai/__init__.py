"""HPC-AI Bench: the library behind the workflow; it knows nothing of Snakemake."""
