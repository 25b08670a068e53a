"""File formats: one file for each, and one line for each in `registry`."""
