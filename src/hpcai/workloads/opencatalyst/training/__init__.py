"""OpenCatalyst's training: DimeNet++ predicts the forces on atoms (MLPerf HPC reference, open_catalyst/)."""
