"""Measurements; every figure in the documents is printed by one of these."""
