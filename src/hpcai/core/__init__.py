"""Foundations of the library: errors, files, units, and the clock of a node; imports no other part of it."""
