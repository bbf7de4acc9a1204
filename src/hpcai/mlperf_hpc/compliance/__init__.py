"""Whether logs and packages comply with the rules; the package ``mlperf_logging`` is the authority."""
