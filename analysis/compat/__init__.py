"""Which operators have a kernel for an NPU in a release of torch_npu, from what its wheels register."""
