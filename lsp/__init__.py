"""The language server: a light client of the engine host. Nothing here imports torch."""
