"""How good predictions are: metrics, baselines, cross-validation, records."""
