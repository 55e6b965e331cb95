"""What a run says while it trains, for people and for programs."""
