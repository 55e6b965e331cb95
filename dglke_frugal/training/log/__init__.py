"""The log of a run while it trains, for people and for programs."""
