"""From the model's answer to the text that is shown: one filter a file, one ordered list."""
