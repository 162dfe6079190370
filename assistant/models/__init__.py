"""What models there are, how they come to this machine, and our memory-mapped file."""
