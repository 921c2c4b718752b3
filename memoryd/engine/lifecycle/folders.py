"""Where the files of a project are."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


class ProjectFolders:
    """The folders of projects, by the identity of a project."""

    def __init__(self, configured: Mapping[str, str]) -> None:
        self._known = {name: Path(folder).expanduser() for name, folder in configured.items()}

    def folder_of(self, project: str | None) -> Path | None:
        """The folder of a project: as configured, or the project itself if it is named by its
        path. None if it is not known or not there; an empty one may be a disk that is away."""
        if project is None:
            return None
        folder = self._known.get(project, Path(project))
        try:
            if not folder.is_absolute():
                return None
            with os.scandir(folder) as found:
                return folder.resolve() if next(found, None) else None
        except (OSError, ValueError, RuntimeError):
            return None
