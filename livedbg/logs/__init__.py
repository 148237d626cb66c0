"""Reading logs: tailing, indexing, recognising shapes, mapping times, decoding. No user interface."""
