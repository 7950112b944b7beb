"""What takes minutes to break."""
