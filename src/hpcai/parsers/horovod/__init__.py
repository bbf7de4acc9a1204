"""Horovod timelines of any size: scanned in blocks, events matched to spans."""
