"""Terminal, JSON, GitHub and Markdown output of a session."""
