"""Datasets: generated, downloaded, verified, packed and staged."""
