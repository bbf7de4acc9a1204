"""Writes a study for a machine: asks the machine what it is, and leaves a marked gap where it does not say."""
