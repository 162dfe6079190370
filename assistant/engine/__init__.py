"""Ids and tensors only: the decoder, its caches, drafting and verification. No text lives here."""
