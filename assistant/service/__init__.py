"""The engine host, its clients and the way of one completion."""
