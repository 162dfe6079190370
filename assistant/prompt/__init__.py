"""Text to ids: tokenizer, prompt layouts, token healing. No tensors."""
