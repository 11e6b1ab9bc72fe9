"""The author's tools: build the book's generated files, check them, record experiments, grade."""

import sys

# jsonschema, which nbformat needs, would spend four seconds at each start on the grammar of
# international addresses, which no notebook holds. It does without where the import fails.
sys.modules.setdefault("rfc3987_syntax", None)
