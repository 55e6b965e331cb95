"""Training by a softmax over all entities. See docs/losses.md."""
