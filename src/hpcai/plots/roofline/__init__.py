"""The roofline charts."""
