"""What a run needs of host and device memory, and what there is."""
