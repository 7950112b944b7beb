"""A whole training job without a device: hosts, queues, streams and collectives of all ranks."""
