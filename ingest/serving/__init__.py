"""What several files tell of the same requests and iterations, put together: one row each, on one axis of time."""
