"""What a data set made of files says of itself: its files, and who offers them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import unquote, urlsplit


class Remote(NamedTuple):
    """One file that a publisher offers.

    Attributes:
        url: where it is.
        digest: `md5:<hex>` or `sha256:<hex>`; "" where the publisher states none.
        size: bytes; 0 is unknown.
        makes: the files that it leaves in the folder; () is itself, by the last part
            of `url`; else members of the archive (tar, tar.gz, tar.bz2, zip), as paths
            relative to the folder: a member matches if its path in the archive is, or
            ends in, what is written here.
    """

    url: str
    digest: str = ""
    size: int = 0
    makes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The last part of the address."""
        return unquote(urlsplit(self.url).path).rpartition("/")[2]

    @property
    def leaves(self) -> tuple[str, ...]:
        """What it leaves in the folder."""
        return self.makes or (self.name,)


class Source(NamedTuple):
    """Where the files of a data set come from.

    Attributes:
        name: the data set.
        folder: its own folder under a root.
        files: what must be there, as paths relative to the folder; a `*` makes one a
            pattern, for which one file is enough.
        page: where a user reads about it and gets it.
        licence: in a few words.
        remotes: what can be fetched; () if no program can fetch it.
        how: what to put where, if it cannot be fetched.
        digests: file → `md5:…` or `sha256:…`, as published; `gunzip.md5:…` is that of
            what a gzip file holds.
    """

    name: str
    folder: str
    files: tuple[str, ...]
    page: str
    licence: str
    remotes: tuple[Remote, ...] = ()
    how: str = ""
    digests: Mapping[str, str] = MappingProxyType({})
