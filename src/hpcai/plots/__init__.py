"""Draw figures from tables, without file access or computation; one theme gives all figures the same look."""
