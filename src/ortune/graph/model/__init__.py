"""Looking at a model without holding its weights; inputs and feeds."""
