"""The default page: one run, one place."""
