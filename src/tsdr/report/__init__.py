"""What people look at: plots and pages made from logs and results."""
