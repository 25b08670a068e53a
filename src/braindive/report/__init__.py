"""One HTML file that shows a fit: where, in which order, how fast, and where each person stands."""
