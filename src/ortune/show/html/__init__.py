"""The report as one HTML file: no script, no address outside itself, readable offline and on paper."""
