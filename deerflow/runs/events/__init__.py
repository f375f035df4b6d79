"""What a run streams: from the parts of its graph to a bounded log of named events."""
