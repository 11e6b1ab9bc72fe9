"""The author's tools: build the book's generated files, check them, record experiments, grade."""
