"""The campaign as a whole: what it will take, how far it is, what state it is in, and what it used."""
