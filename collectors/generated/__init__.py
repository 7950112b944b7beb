"""Kernels that Inductor makes of a plain function of torch operators: made, judged, tuned, kept, measured again."""
