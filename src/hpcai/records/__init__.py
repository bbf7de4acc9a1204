"""The run record, and the tables made of many."""
