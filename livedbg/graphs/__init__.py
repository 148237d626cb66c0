"""Task graphs that a runtime declared: read from its files, checked for orders that they lack, compared, drawn."""
