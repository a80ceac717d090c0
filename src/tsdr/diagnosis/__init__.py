"""How a log was selected, and what a model's risk is once that is taken out."""
