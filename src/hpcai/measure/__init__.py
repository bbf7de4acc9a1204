"""Starts, watches and publishes runs: whatever happens to the ranks ends in one record."""
