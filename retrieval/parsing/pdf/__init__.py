"""PDF: pages by PDFium, their layout made into Markdown."""
