"""DGL-KE's own models and training loop over our embedding store."""
