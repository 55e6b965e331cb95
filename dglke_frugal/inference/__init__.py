"""Questions to a trained run: scores, ranks, the best completions, similar entities, exports."""
