"""The page of device memory."""
