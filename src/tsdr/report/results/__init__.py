"""The results page: records beside the paper's numbers."""
