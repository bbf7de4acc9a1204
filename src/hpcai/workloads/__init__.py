"""The benchmarks: one folder each, with all that is known of it; nothing outside of its folder names it."""
