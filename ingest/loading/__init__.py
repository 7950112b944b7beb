"""From an upload to parts: what lies in it, who reads it, in which process, and what became of every file."""
