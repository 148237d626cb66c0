"""Files that hold a log as the entries of some format, written out as one line an entry."""
