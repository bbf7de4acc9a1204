"""Compliance of logs and packages with the rules; the package ``mlperf_logging`` is the authority."""
