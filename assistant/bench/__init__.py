"""Measurements of the product by its own parts: decoding, passes, infilling, accuracy, memory, rivals.

Every module returns plain dictionaries in the shapes of the command line's contract and prints nothing;
progress goes to a callback. Timings are for people to quote, tests hold properties only.
"""
