"""Data-parallel training of convolutional networks: layers, costs, communication, step time."""
