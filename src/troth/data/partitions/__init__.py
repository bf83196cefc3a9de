"""How data are dealt to clients: arrays in, one list of row numbers a client out."""
