"""The report as one HTML file without references to other files, readable offline and in print."""
