"""Small captures that this project recorded or simulated itself, each with its manifest."""
