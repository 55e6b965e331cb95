"""A training run: sampler, step, tables, loop, processes, checkpoints, what it says."""
