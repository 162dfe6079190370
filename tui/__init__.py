"""The terminal interface: a light client of the engine host. Nothing here imports torch."""
