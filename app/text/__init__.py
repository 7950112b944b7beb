"""What is said on the screen and in the terminal, in English and in Chinese."""
