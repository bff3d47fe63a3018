"""Where programs written against the Cirron SDK look for what is not at the top."""
