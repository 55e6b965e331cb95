"""What a run will do where its flags leave the choice, and what memory it needs for that."""
