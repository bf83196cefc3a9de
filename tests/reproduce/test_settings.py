"""What stands in where data cannot be had."""

from troth.reproduce.settings import SETTINGS


def test_what_stands_in_never_has_the_name_of_the_original():
    assert len(SETTINGS) == 6
    for setting in SETTINGS.values():
        assert setting.original.kind == "original"
        other = setting.stand_in
        if other is not None:
            assert other.kind == "stand-in" and other.name != setting.original.name
