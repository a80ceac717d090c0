"""What undoes the selection: propensities and their weights, imputed errors, estimators of the risk over all cells."""
