"""The page of communication."""
