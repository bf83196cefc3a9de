"""Images in folders of owners and classes."""

import numpy as np
from PIL import Image

from troth.data.datasets.image_folder import image_folder

PIXELS = np.random.default_rng(0).integers(0, 256, (4, 5, 6, 3), dtype=np.uint8)
PLACES = ("Ulm/cat/1.png", "Ulm/dog/1.PNG", "Bern/cat/2.png", "Bern/.trash/3.png")


def saved(place, names=PLACES):
    for name, image in zip(names, PIXELS, strict=True):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(place / name)
    return str(place)


def test_owners_and_classes(tmp_path):
    path = saved(tmp_path)
    (tmp_path / "Ulm" / "cat" / "Thumbs.db").write_bytes(b"")
    found = image_folder(path=path)
    order = [2, 0, 1]  # Bern, Ulm; hidden folders are ignored
    assert np.array_equal(found.x, PIXELS[order].transpose(0, 3, 1, 2))
    assert found.owners == ("Bern", "Ulm") and found.owner.tolist() == [0, 1, 1]
    assert found.labels == ("cat", "dog") and found.y.tolist() == [0, 0, 1]
    assert found.scale == 255 and found.x.dtype == np.uint8
    found = image_folder(
        path=path, colors="gray", size=3, classes=["emu", "dog", "cat"]
    )
    assert found.x.shape == (3, 1, 3, 3) and found.classes == 3
    assert found.y.tolist() == [2, 2, 1]
    wanted = Image.fromarray(PIXELS[2]).convert("L")
    wanted = wanted.resize((3, 3), resample=Image.Resampling.BILINEAR)
    assert np.array_equal(found.x[0, 0], np.asarray(wanted))


def test_other_layouts(tmp_path):
    names = ("train/a/1.png", "train/b/1.png", "test/a/1.png", "valid/b/1.png")
    found = image_folder(path=saved(tmp_path / "i", names), levels=["split", "class"])
    assert found.split.tolist() == [2, 0, 0, 1] and found.owner is None
    names = ("g/o/a/1.png", "g/p/b/1.png", "h/o/a/1.png", "h/p/b/1.png")
    path, levels = saved(tmp_path / "j", names), ["group", "owner", "class"]
    found = image_folder(path=path, levels=levels)
    assert found.group.tolist() == [0, 0, 1, 1] and found.owner.tolist() == [0, 1] * 2


def test_refuses(tmp_path, refuses):
    path = saved(tmp_path / "i")
    for levels in (["owner"], ["class", "class"]):
        refuses("levels must name 'class'", image_folder, path=path, levels=levels)
    words = "there is no image CLASS/NAME.png in .*data.levels"
    refuses(words, image_folder, path=path, levels=["class"])
    refuses("there is no image OWNER/CLASS", image_folder, path=str(tmp_path / "none"))
    Image.fromarray(PIXELS[0, :4]).save(tmp_path / "i" / "Ulm" / "dog" / "2.png")
    words = "2.png has 6×4 pixels and .* has 6×5: set data.size"
    refuses(words, image_folder, path=path)
    assert image_folder(path=path, size=4).x.shape == (4, 3, 4, 4)
    (tmp_path / "i" / "Ulm" / "dog" / "3.jpg").write_bytes(b"no")
    refuses("3.jpg is not a JPEG picture", image_folder, path=path)
