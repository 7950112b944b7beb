"""The page of requests to a serving engine."""
