"""From sequences to a trained model, and the bundle in which it is kept."""
