"""Horovod timelines: scanned in blocks, events matched to spans, whatever their size."""
