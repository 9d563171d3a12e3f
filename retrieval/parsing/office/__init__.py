"""Office files that are archives of XML: texts, presentations and spreadsheets."""
