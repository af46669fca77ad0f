"""The deliverable: tuned model, settings, code and proof."""
