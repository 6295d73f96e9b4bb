"""The judge: a served model that answers criterion by criterion."""
