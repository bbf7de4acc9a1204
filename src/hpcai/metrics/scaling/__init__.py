"""How results change with the number of ranks."""
