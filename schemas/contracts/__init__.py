"""The values that each contract takes and gives: no wire spelling, and no behaviour beyond checks."""
