"""Where the rows of a table are while a step works on them: in place, behind a cache, or with other ranks."""
