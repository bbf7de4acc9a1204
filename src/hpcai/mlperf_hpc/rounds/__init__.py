"""Read published result repositories and own runs into the same submissions, systems and runs."""
