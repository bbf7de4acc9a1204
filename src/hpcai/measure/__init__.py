"""Start, watch and publish runs; every outcome of the ranks ends in one record."""
