"""CosmoFlow: the official container, and a generator of small universes."""
