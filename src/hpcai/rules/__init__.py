"""The rules of the two suites as tables (``*.yaml``), and the judgement of a run by them."""
