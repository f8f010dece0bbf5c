"""The checker of shape annotations: every call that a test makes of the library is checked."""

from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_pep484_tower=True))  # an int is a float, as type checkers have it
