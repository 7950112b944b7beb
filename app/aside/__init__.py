"""Long questions about large runs, asked in processes beside the server."""
