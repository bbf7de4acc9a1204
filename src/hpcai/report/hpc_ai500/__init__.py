"""The report document of HPC AI500 V2.0, section 6.3.3: its content for a study, and a folder to submit."""
