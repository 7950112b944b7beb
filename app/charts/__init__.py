"""Pure functions from rows to figures: no Streamlit, no store, no session."""
