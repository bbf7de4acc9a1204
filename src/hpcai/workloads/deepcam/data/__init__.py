"""DeepCAM's data: frames of a climate simulation with a class for each pixel."""
