"""Training data and trained heads: what prompts are cut from, what the model says to them, and what learns from it."""
