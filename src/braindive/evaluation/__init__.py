"""Judging fits: agreement with a truth."""
