"""One typed, frozen Settings: `schema` declares it, `load` joins its sources, `save` writes a file."""
