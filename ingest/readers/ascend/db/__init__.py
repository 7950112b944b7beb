"""Databases of torch_npu, MindSpore, msprof and msmonitor: one schema in many versions."""
