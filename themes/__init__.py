"""Colour themes and the style sheet of the terminal app."""
