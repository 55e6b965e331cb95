"""One training step, on a processor or a device. See docs/step.md."""
