"""What a self-test and a run of evidence leave: judged, packed without names, and opened again as hostile input."""
