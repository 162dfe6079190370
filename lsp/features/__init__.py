"""What the server answers and listens to, one subject a file; `lsp.server` names the methods."""
