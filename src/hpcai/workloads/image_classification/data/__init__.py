"""Image classification: the official ImageNet TFRecord files, their conversion, and a generator of small ones."""
