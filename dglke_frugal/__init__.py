"""A backend for DGL-KE: embedding tables in host memory, hot rows cached per device, updates flushed by next use."""
