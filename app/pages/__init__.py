"""The pages, discovered by dashboard.py. One file is one page: TITLE (a key of app/words), ICON, ORDER, render(ctx)."""
