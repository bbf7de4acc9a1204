"""The HTML report and the documents to submit."""
