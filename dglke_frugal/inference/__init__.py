"""What a trained run can be asked: scores, ranks, the best completions, similar entities, exports."""
