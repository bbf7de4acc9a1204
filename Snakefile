"""HPC-AI Bench, started where it lies; the workflow is workflow/Snakefile, which other workflows use as a module."""

# As `include:` does, but with its default target.
workflow.include("workflow/Snakefile", overwrite_default_target=True)
