"""What editors need besides the server; nothing here is imported by it."""
