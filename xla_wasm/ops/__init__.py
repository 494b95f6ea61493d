"""All operations of HLO, a folder for each family with everything about it, and what families share; nothing of passes,
plans or hosts."""
