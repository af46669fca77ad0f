"""Rules on decoders of language models: LLM."""
