"""Judging a model: against held-out answers, the truth, baselines and the bound, fold by fold."""
