"""Files: tables, maps, the packed store and the saved model."""
