"""ExtremeWeather: the official HDF5 container, its checks and conversion, and a generator."""
