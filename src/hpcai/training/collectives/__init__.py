"""Tensor exchange between ranks: one module per engine, found by the engine's name."""
