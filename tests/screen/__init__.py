"""The dashboard as somebody uses it, in a real browser, on jobs in which it is known what is wrong."""
