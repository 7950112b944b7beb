"""The formats of the Ascend tools, part by part."""
