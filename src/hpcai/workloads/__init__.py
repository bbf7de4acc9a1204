"""Benchmarks, one self-contained folder each; no code outside a folder names it."""
