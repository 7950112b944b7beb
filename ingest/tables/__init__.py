"""The contract tables: their schema, the draft that readers write, and how a draft becomes Parquet."""
