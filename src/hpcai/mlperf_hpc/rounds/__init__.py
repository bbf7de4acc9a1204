"""Published result repositories and own runs as the same submissions, systems and runs."""
