"""Datasets: made, fetched, verified, packed and staged."""
