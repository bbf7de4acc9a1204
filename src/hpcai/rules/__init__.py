"""The rules of the two suites as tables (``*.yaml``), and their application to runs."""
