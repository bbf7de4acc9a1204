"""Names of folders of a run, for those who only look."""

ATTEMPTS = "attempts"
"""Below the folder of a run: its attempts, under way, broken down or interrupted."""
