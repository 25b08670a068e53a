"""The model: arrays in, arrays out."""
