"""The rank program: one loop for all benchmarks on TensorFlow and Horovod (`python -m hpcai.training`)."""
