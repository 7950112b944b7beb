"""What the pages measure, one topic a file: pure functions of a connection that carries the views."""
