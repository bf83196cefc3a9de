"""Convert data sets of Hugging Face to pandas DataFrames."""

from pathlib import Path
from typing import Any

import pandas as pd

from troth.types import Refusal

_SPLIT = "split"  # name of an added column with the part of each example
_PARTS = {"train": "train", "validation": "valid", "valid": "valid", "test": "test"}


def frame(data: Any) -> pd.DataFrame:
    """Return a `Dataset` or a `DatasetDict` as a table.

    The table of a `DatasetDict` has a column `split`. Labels of the type `ClassLabel`
    become categories with the names of all classes. Images are not decoded.
    """
    if isinstance(data, dict):
        return _parts(data)
    if not hasattr(data, "to_pandas") or not hasattr(data, "__len__"):
        raise Refusal(
            f"data= is a {type(data).__name__} of Hugging Face, which is read as a "
            "stream; give a Dataset or a DatasetDict, loaded without streaming=True"
        )
    made: pd.DataFrame = data.with_format(None).to_pandas()
    for name, feature in data.features.items():
        if type(feature).__name__ == "ClassLabel":
            codes = made[name].fillna(-1).astype(int)
            made[name] = pd.Categorical.from_codes(codes, feature.names)
    return made


def saved(place: Path) -> bool:
    """Return whether a folder was written by `save_to_disk`."""
    files = ("dataset_info.json", "dataset_dict.json")
    return any((place / name).is_file() for name in files)


def read(place: Path) -> pd.DataFrame:
    """Read a folder that `save_to_disk` wrote."""
    try:
        import datasets
    except ImportError:
        raise Refusal(
            f"{place} is a data set of Hugging Face, which needs the library datasets: "
            "pip install 'troth[hf]'"
        ) from None
    try:
        data = datasets.load_from_disk(str(place))
    except Exception as error:  # damaged files raise many types of errors
        raise Refusal(
            f"{place} cannot be read as a data set of Hugging Face ({error}): write it "
            "again with its method save_to_disk"
        ) from None
    return frame(data)


def _parts(data: dict[str, Any]) -> pd.DataFrame:
    for name in data:
        if name not in _PARTS:
            raise Refusal(
                f"data= has the part '{name}'; the parts of a DatasetDict must be "
                "called train, validation (or valid) and test: rename it, or give one "
                "of its data sets"
            )
    every = [frame(part).assign(**{_SPLIT: _PARTS[n]}) for n, part in data.items()]
    if any(_SPLIT in part.column_names for part in data.values()):
        raise Refusal(
            f"data= has a column '{_SPLIT}' in its parts, which are themselves the "
            "split: rename it"
        )
    made = pd.concat(every, ignore_index=True)
    made.attrs["split"] = _SPLIT
    return made
