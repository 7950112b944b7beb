"""The texts of the screen. One file a part: TEXT maps a key to (English, Chinese)."""
