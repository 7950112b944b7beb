"""What reading and the store say: a name and its values are a message, its texts are here in English and Chinese."""
