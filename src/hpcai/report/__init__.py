"""The HTML report and the documents to hand in: what a person reads of a study."""
