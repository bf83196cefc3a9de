"""Certificates on disk: a table to which one row per certificate is appended."""

import csv
import io
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from troth.certificates.record import Certificate
from troth.files import CERTIFICATES, locked, refused
from troth.types import Refusal

NAME = CERTIFICATES


class Row(NamedTuple):
    """The certificate of one example under one model of one client."""

    model: str  # personal, shared or local
    client: int
    example: int  # row of the data set
    y: int  # true class
    certificate: Certificate
    parameters: str  # SHA-256 of the model's parameters


_HEAD = (*Row._fields[:4], *Certificate._fields)
_KINDS: tuple[Any, ...] = (int, float, float, int, int, "True".__eq__)
"""For each field of a certificate, the function that converts its text to a value."""


class Ledger:
    """Read the certificates with given settings from a file, and append more.

    Rows with other settings stay in the file. If the process was killed while it wrote
    a line, the incomplete line is removed, and its certificate is computed again.

    Args:
        folder: folder of the file, which is made if it does not exist.
        settings: settings of the certificates, as a dictionary from column to value.

    Raises:
        Refusal: the file cannot be written, has other columns or is in use.
    """

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        self.path = folder / NAME
        self._settings = {key: str(value) for key, value in settings.items()}
        self._columns = (*_HEAD, *self._settings, "device", "compiled", "parameters")
        self._made, self._empty = not folder.exists(), False
        with refused(self.path, "give another --out"):
            folder.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("a+", encoding="utf-8", newline="")
        if not locked(self._file):
            self._file.close()
            raise Refusal(
                f"{self.path} is in use by another troth certify; wait for its end, or "
                "give another --out"
            )
        self.rows = self._read()

    def _read(self) -> list[Row]:
        self._file.seek(0)
        text = self._file.read()
        whole = text[: text.rfind("\n") + 1]
        if len(whole) < len(text):
            self._file.truncate(len(whole.encode()))
        if not whole:
            self._empty = True
            self._write(self._columns)
            return []
        head, *lines = list(csv.reader(io.StringIO(whole)))
        if tuple(head) != self._columns:
            self._file.close()
            raise Refusal(
                f"{self.path} was written by another version of Troth, whose "
                "certificates have other columns; move it away, or give another --out"
            )
        every = (dict(zip(head, line, strict=False)) for line in lines)
        return [
            _row(cells) for cells in every if self._settings.items() <= cells.items()
        ]

    def add(self, row: Row, device: str, compiled: bool) -> None:
        """Append a certificate and flush, so that it survives the end of the process.

        Args:
            row: the certificate, its example and its model.
            device: type of the device that computed it.
            compiled: whether the classifier was compiled.
        """
        settings = self._settings.values()
        self._write((*row[:4], *row.certificate, *settings, device, compiled, row[5]))
        self.rows.append(row)

    def _write(self, cells: tuple[Any, ...]) -> None:
        line = io.StringIO()
        csv.writer(line, lineterminator="\n").writerow(cells)
        self._file.write(line.getvalue())
        self._file.flush()

    def close(self) -> None:
        """Close the file, and remove it if it has no certificates.

        The folder is removed too if this object made it and no file is left.
        """
        self._file.flush()
        os.fsync(self._file.fileno())
        if self._empty and not self.rows:
            self.path.unlink()
        self._file.close()
        if self._made and not self.path.exists():
            self.path.parent.rmdir()


def _row(cells: Mapping[str, str]) -> Row:
    named = zip(Certificate._fields, _KINDS, strict=True)
    certificate = Certificate(*(kind(cells[name]) for name, kind in named))
    client, example, y = (int(cells[name]) for name in _HEAD[1:4])
    return Row(cells["model"], client, example, y, certificate, cells["parameters"])
