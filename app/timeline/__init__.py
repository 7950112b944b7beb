"""The timeline: its routes, its wire format and its canvas."""
