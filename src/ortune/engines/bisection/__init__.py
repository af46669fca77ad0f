"""Where the values inside two models part: every value of both looked at, matched, and held against the other."""
