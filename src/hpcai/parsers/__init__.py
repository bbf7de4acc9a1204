"""One file per tool: turn a raw artefact into a tidy table with units; report what cannot be read, never guess."""
