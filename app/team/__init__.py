"""A server for a team: who is asking, what they may see and do, and what was done."""
