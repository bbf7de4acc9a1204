"""The list: results of many machines with their evidence and verdicts, as a static site and as data."""
