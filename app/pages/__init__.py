"""The pages, found by dashboard.py. A folder is a page: page.py has TITLE (a key of its words), ICON, ORDER,
render(ctx)."""
