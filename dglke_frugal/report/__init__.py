"""A run as pictures: one HTML page that needs nothing else, and image files."""
