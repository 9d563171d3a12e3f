"""The vocabulary of all other packages: records, errors, filters, settings and the shapes of the wire."""
