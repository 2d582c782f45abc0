"""What every folder may use: threads, columns, native libraries, errors, units, cells, safe text, files."""
