"""A fleet: loads on a Ray cluster, runs in object storage, and the view of ten thousand ranks."""
