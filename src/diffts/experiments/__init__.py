"""Experiments: each a function that returns rows, and knows nothing of terminals or pictures."""
