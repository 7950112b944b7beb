"""A check as a file to hand on: HTML, Markdown, JSON or JUnit, by the ending of its name."""
