"""Figures: each returns matplotlib axes or figures and never shows them."""
