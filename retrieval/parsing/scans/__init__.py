"""Pictures of text: pages of scans and files that are pictures, read by Tesseract (the extra `ocr`)."""
