"""The run as a graph that can be replayed: what each moment waited for, and what a change gives back."""
