"""OpenCatalyst's data: OC20 structures as graphs, in LMDB files of pickled PyTorch Geometric objects."""
