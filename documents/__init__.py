"""What the documents show of results, made from the records: `python -m documents.NAME` writes it anew."""
