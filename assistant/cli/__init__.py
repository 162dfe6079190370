"""The command line: one file per command; output.py alone writes to stdout and stderr."""
