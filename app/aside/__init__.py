"""Questions that are asked in processes beside the server: long ones of large runs, and a visitor's own SELECT."""
