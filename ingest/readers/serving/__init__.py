"""What serving engines, their clients and RL jobs write: requests, iterations, figures. One file a format."""
