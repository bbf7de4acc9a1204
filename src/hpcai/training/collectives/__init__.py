"""How ranks exchange tensors: one module for each engine, found by the engine's name."""
