"""Makes the guide: a web site of the pages in `docs/` and of a reference of the HTTP interface, for `/docs/guide/`."""
