"""Numbers of scripts that stand beside a paper's."""

from troth.reproduce import listing, numbers


def test_the_table_of_shortcuts(tmp_path, put):
    assert numbers.shortcuts(tmp_path) == {}
    place = tmp_path / "shortcuts"
    for figure, label in (("shared", "mnist"), ("table", "mnist, finetune, 0")):
        for seed, accuracy in enumerate((0.5, 0.75)):
            own = {"accuracy_mean": accuracy}
            both = {"shared": own, "personal": {"accuracy_mean": accuracy / 2}}
            tests = {"tests": {"conflicting": both}}
            said = {"label": label, "seed": seed, "summary": {**both, **tests}}
            put(place, f"{figure}/{label}, seed {seed}", said)
    others = {"label": "mnist, distance alone, 0", "summary": {}}
    put(place, "table/others", others)
    part = "coloured MNIST, CelebA and Coil20"
    assert numbers.shortcuts(tmp_path) == {
        (part, "Global", "MNIST Acc_B"): [0.5, 0.75],
        (part, "Global", "MNIST Acc_BC"): [0.5, 0.75],
        (part, "FT", "MNIST Acc_B"): [0.25, 0.375],
        (part, "FT", "MNIST Acc_BC"): [0.25, 0.375],
    }


def test_figures_along_fine_tuning_are_about_other_things():
    shows = {n: listing.find(f"spurious/figure{n}").shows for n in (5, 6, 7)}
    assert shows[5] == ("accuracy", "conflicting accuracy")
    assert shows[6] == ("accuracy disparity", "adversarial accuracy gained")
    assert shows[7] == ("loss disparity", "transferability gap")


def test_the_table_of_sums(tmp_path, put):
    assert numbers.sums(tmp_path) == {}
    curves = {"shared": [0.1, 0.8], "idle": [0.1, 0.7], "own": [0.1, 0.6]}
    put(tmp_path / "attack_chain", "sums/linear, sum, λ=1.0", curves)
    found = numbers.sums(tmp_path)
    printed = listing.find("equivalence/table1").printed
    assert printed is not None and len(found) == 3
    for (part, row, column), (value,) in found.items():
        theirs = printed.part(part).at(row, column)
        assert theirs is not None and column == "Σ linear"
        assert abs(theirs.mean - value) < 0.3
    assert found["noisy Fashion-MNIST", "idle user's model", "Σ linear"] == [0.7]


def test_figures_are_about_what_their_captions_say():
    shows = {n: listing.find(f"equivalence/figure{n}").shows for n in (1, 2, 3, 16)}
    assert shows[1] == ("accuracy by true labels",)
    assert shows[2] == ("distance to target", "accuracy by wanted labels")
    assert shows[3] == ("honest users' own, by wanted labels",)
    assert shows[16] == ("norm", "distance to target")
