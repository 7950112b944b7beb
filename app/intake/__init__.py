"""How a capture comes in: a drop in the browser, a link for a colleague, curl; and the loads that follow."""
