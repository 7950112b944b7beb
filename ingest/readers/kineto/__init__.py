"""Chrome traces as torch.profiler (Kineto) writes them, taken apart."""
