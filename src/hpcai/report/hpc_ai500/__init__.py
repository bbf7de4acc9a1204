"""The report document of HPC AI500 V2.0, section 6.3.3: what a study has of it, and a folder to submit."""
