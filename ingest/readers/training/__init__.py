"""How a training went, step by step."""
