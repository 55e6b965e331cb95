"""Training sharded by columns on several devices: each rank has some columns of every row. See docs/exactness.md."""
