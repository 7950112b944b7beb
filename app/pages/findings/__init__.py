"""The page of all judgements."""
