"""The fold: events in, one immutable state out."""
