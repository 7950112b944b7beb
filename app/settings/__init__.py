"""npulens.toml, as it holds where a command or a server runs."""
