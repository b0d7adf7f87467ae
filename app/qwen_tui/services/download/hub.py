"""The Hub as its own client library sees it: listing, authentication, endpoint. Worker only.

Importing this module imports ``huggingface_hub``, which reads ``HF_HUB_DISABLE_XET`` at that moment
and never again.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import huggingface_hub
from huggingface_hub import HfApi, constants, errors

from qwen_tui import __version__
from qwen_tui.services.download.hosts import HostLog, host_of
from qwen_tui.services.download.listing import (
    RemoteFile,
    RemoteRepo,
    check_commit,
    check_path,
    git_id,
    sha256_id,
)
from qwen_tui.services.download.problems import LONGEST_WAIT_S, Problem, from_network
from qwen_tui.services.download.route import refusal

if TYPE_CHECKING:
    from collections.abc import Callable

    from qwen_tui.services.download.control import Control
    from qwen_tui.services.download.request import DownloadRequest

__all__ = ["Hub"]

_LISTING_TRIES = 4
_TOKEN_VARIABLES = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")


@dataclass(frozen=True, slots=True)
class Hub:
    """One endpoint with the user's own credentials.

    Attributes:
        endpoint: Base URL.
        token: Never shown, never logged; sent to the endpoint's own origin only.
        token_source: Where it comes from, in the user's terms.
        library_version: Version of ``huggingface_hub``.
        cache: The Hub's cache folder.
    """

    endpoint: str
    token: str | None
    token_source: str | None
    library_version: str
    cache: Path

    @classmethod
    def connect(cls, request: DownloadRequest) -> Hub:
        """Read the Hub's own settings.

        Raises:
            Problem: Xet is on in this process, or offline mode is.
        """
        if not constants.HF_HUB_DISABLE_XET:
            raise Problem("xet_on")
        if constants.HF_HUB_OFFLINE:
            raise Problem("offline")
        token, source = _token()
        return cls(
            endpoint=(request.endpoint or constants.ENDPOINT).rstrip("/"),
            token=token,
            token_source=source,
            library_version=huggingface_hub.__version__,
            cache=Path(constants.HF_HUB_CACHE),
        )

    def list_files(
        self,
        request: DownloadRequest,
        control: Control,
        hosts: HostLog,
        notify: Callable[..., None],
    ) -> RemoteRepo:
        """Return the files of the revision, pinned to its commit; each retry is notified.

        Raises:
            Problem: The endpoint refuses or cannot be reached.
            Cancelled: The user stopped it.
        """
        host = host_of(self.endpoint)
        hosts.note(host, "listing")
        api = HfApi(
            endpoint=self.endpoint,
            token=self.token if self.token is not None else False,
            library_name="qwen-tui",
            library_version=__version__,
        )
        for attempt in range(1, _LISTING_TRIES + 1):
            control.checkpoint()
            try:
                info = api.model_info(
                    request.repo, revision=request.revision, files_metadata=True, timeout=20.0
                )
            except errors.HFValidationError as error:
                raise Problem("bad_repo_id", repo=request.repo) from error
            except Exception as error:
                problem = _problem(error, host)
                wait = problem.fields.get("wait_s")
                seconds = wait if isinstance(wait, int | float) else request.backoff_s * attempt
                if not problem.retryable or attempt == _LISTING_TRIES or seconds > LONGEST_WAIT_S:
                    raise problem from error
                notify(
                    "retry",
                    path=request.repo,
                    code=problem.code,
                    fields=problem.fields,
                    wait_s=seconds,
                    attempt=attempt,
                )
                control.wait(float(seconds))
            else:
                return _repo(request, info)
        raise Problem("timeout", host=host)


def _repo(request: DownloadRequest, info: Any) -> RemoteRepo:
    repo = request.repo
    files: list[RemoteFile] = []
    for sibling in info.siblings or ():
        lfs = sibling.lfs
        path = check_path(sibling.rfilename)
        sha256 = sha256_id(_field(lfs, "sha256"), path, repo)
        size = _field(lfs, "size") or sibling.size
        files.append(
            RemoteFile(
                path=path,
                size=size if isinstance(size, int) and size >= 0 else None,
                sha256=sha256,
                blob_id=git_id(sibling.blob_id, path, repo) if sha256 is None else None,
            )
        )
    if not files:
        raise Problem("empty_listing", repo=repo)
    commit = check_commit(info.sha, request.revision, repo)
    return RemoteRepo(repo, commit, tuple(sorted(files, key=lambda f: f.path)))


def _field(value: Any, name: str) -> Any:
    if value is None:
        return None
    return value.get(name) if isinstance(value, dict) else getattr(value, name, None)


def _problem(error: Exception, host: str) -> Problem:
    response = getattr(error, "response", None)
    if response is not None:
        named = {
            errors.GatedRepoError: "gated",
            errors.RevisionNotFoundError: "revision_not_found",
        }
        for kind, code in named.items():
            if isinstance(error, kind):
                return Problem(code, host=host, status=response.status_code)
        return refusal(response.status_code, response.headers, host, storage=False)
    if isinstance(error, errors.OfflineModeIsEnabled):
        return Problem("offline")
    if isinstance(error, (ValueError, TypeError, KeyError, AttributeError)):
        # It came, and is no listing: a login page of the network, or no mirror at all.
        return Problem("no_listing", host=host)
    return from_network(error, host)


def _token() -> tuple[str | None, str | None]:
    """Return the token and where it comes from, by the Hub's own rules.

    Raises:
        Problem: The Hub's client cannot get one that the user's settings ask for.
    """
    if constants.HF_HUB_DISABLE_IMPLICIT_TOKEN:
        # The user's word that a stored token goes nowhere unless asked for.
        return None, None
    try:
        token = huggingface_hub.get_token()
    except Exception as error:
        raise Problem("no_token", reason=_first_line(error)) from error
    return token, _token_source() if token else None


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]


def _token_source() -> str:
    for name in _TOKEN_VARIABLES:
        if os.environ.get(name):
            return name
    path = Path(constants.HF_TOKEN_PATH)
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)
