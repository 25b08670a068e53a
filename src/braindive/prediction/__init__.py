"""Prediction of a person's later maps: the course of the disease and the person's own level."""
