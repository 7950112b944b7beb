"""How often the gate cries wolf, and what it sees: measured on noise with and without a planted change."""
