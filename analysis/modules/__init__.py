"""The modules of a model (nn.Module): where each of them spends the host and the device."""
