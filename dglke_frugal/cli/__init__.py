"""Commands: what they take, what they print, how they end."""
