"""Tables and texts of nvprof: summary, GPU trace, metrics and events."""
