"""HTML pages that need no other file: text, tables that sort and filter, charts by Vega-Lite."""
