"""Why the device idled: its gaps, who held them up, and in which code."""
