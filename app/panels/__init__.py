"""Parts of a page: each draws one thing with `show(ctx)` and leaves calculating to analysis and charts."""
