"""Agents ask here what people see: seven tools over a store, by the Model Context Protocol (MCP)."""
