"""What a night leaves for people and scripts: HTML, Markdown, JUnit, messages."""
