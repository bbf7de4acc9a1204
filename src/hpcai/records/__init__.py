"""The run record, and tables of many records."""
