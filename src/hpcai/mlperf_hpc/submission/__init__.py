"""Write own runs as a submission: the tree that the package checker accepts."""
