"""The scaling charts."""
