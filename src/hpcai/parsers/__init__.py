"""One file per tool: from a raw artefact to a tidy table with units; what cannot be read is said, never guessed."""
