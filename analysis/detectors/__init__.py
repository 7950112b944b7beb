"""One file is one judgement; see CONTRIBUTING.md."""
