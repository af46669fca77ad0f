"""What the options of several verbs have in common: groups, spelling, and a measurement made of them."""
