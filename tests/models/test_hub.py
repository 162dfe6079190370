"""A download is the file that was meant, by its hash, or one sentence; nothing is fetched twice."""

from __future__ import annotations

import hashlib
import shutil
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from assistant import locations
from assistant.errors import DownloadError, ModelMissingError, NoSpaceError, UsageError
from assistant.models import catalog, fetch, hub, store
from assistant.models.catalog import Entry
from tests.conftest import OwnHome
from tests.models import hub_server, tiny

SOURCE = catalog.Hub("Owner/Model-GGUF", "0123456789abcdef", "model-q4_k_m.gguf")
AGAIN = "run `tokenleap models pull tiny` again"


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("hub") / "m.gguf"
    tiny.write(path, seed=3)
    return path.read_bytes()


@pytest.fixture
def server(own_home: OwnHome, content: bytes, monkeypatch: pytest.MonkeyPatch) -> Iterator[hub_server.Hub]:
    monkeypatch.setattr(hub, "BACKOFF_SECONDS", 0.0)
    with hub_server.serving(content) as running:
        monkeypatch.setenv("TOKENLEAP_HUB", running.url)
        yield running


def get(sha256: str = "", size: int = 0) -> Path:
    return hub.download(SOURCE, sha256=sha256, size=size, again=AGAIN)


def strays() -> set[str]:
    """What lies in the downloads folder besides locks."""
    return {path.name for path in hub.folder().iterdir() if not path.name.endswith(".lock")}


def assert_fails(words: str, sha256: str = "", size: int = 0) -> str:
    with pytest.raises(DownloadError, match=words) as caught:
        get(sha256, size)
    text = str(caught.value)
    assert text.endswith(AGAIN) and "\n" not in text
    return text


@pytest.mark.parametrize("redirects", [True, False])
@pytest.mark.parametrize("says_hash", ["x-linked-etag", "etag", None])
def test_a_download_is_the_file(
    server: hub_server.Hub, content: bytes, redirects: bool, says_hash: str | None
) -> None:
    server.redirects, server.says_hash = redirects, says_hash
    path = get()
    assert path.read_bytes() == content
    assert server.asked == [("/Owner/Model-GGUF/resolve/0123456789abcdef/model-q4_k_m.gguf", "")]
    assert strays() == {path.name}
    assert get() == path and len(server.asked) == 1


def test_a_broken_connection_goes_on_where_it_stopped(server: hub_server.Hub, content: bytes) -> None:
    server.cut_after = [100_000, 50_000]
    assert get().read_bytes() == content
    assert [asked for _, asked in server.asked] == ["", "bytes=100000-", "bytes=150000-"]


def test_a_later_run_goes_on_too(server: hub_server.Hub, content: bytes) -> None:
    server.cut_after = [100_000, 10, 20, 30]
    text = assert_fails("the connection ended after|peer closed|connection")
    assert "is kept" in text
    server.asked.clear()
    assert get().read_bytes() == content
    assert [asked for _, asked in server.asked] == ["bytes=100060-"]
    assert len(strays()) == 1


def test_a_part_without_a_hash_is_not_trusted(server: hub_server.Hub, content: bytes) -> None:
    server.says_hash = None
    server.cut_after = [1000, 1000, 1000, 1000]
    assert_fails("is kept")
    assert [asked for _, asked in server.asked] == [""] * 4
    assert get().read_bytes() == content


def test_a_part_of_a_file_that_changed_meanwhile_is_thrown_away(
    server: hub_server.Hub, content: bytes
) -> None:
    server.cut_after = [100_000, 10, 10, 10]
    assert_fails("is kept")
    server.content = content[:-1] + b"z"
    assert get().read_bytes() == server.content


@pytest.mark.parametrize("change", [{"ranges": False}, {"wrong_range": True}])
def test_a_server_that_gets_ranges_wrong(
    server: hub_server.Hub, content: bytes, change: dict[str, bool]
) -> None:
    server.cut_after = [100_000]
    for name, value in change.items():
        setattr(server, name, value)
    assert get().read_bytes() == content


def test_a_whole_part_needs_nothing_more(server: hub_server.Hub, content: bytes) -> None:
    path = hub.path_of(SOURCE)
    path.parent.mkdir(parents=True)
    path.with_name(path.name + ".part").write_bytes(content)
    path.with_name(path.name + ".part.json").write_text(f'{{"sha256": "{server.etag}"}}')
    assert get().read_bytes() == content
    assert strays() == {path.name}


def test_a_part_that_is_too_long_is_thrown_away(server: hub_server.Hub, content: bytes) -> None:
    path = hub.path_of(SOURCE)
    path.parent.mkdir(parents=True)
    path.with_name(path.name + ".part").write_bytes(content + b"more")
    path.with_name(path.name + ".part.json").write_text(f'{{"sha256": "{server.etag}"}}')
    assert get().read_bytes() == content


def test_passing_trouble_is_tried_again(server: hub_server.Hub, content: bytes) -> None:
    server.failures = [503, 429]
    assert get().read_bytes() == content


def test_lasting_trouble_is_said(server: hub_server.Hub) -> None:
    server.status = 503
    assert_fails("answered 503")
    assert len(server.asked) == hub.ATTEMPTS


@pytest.mark.parametrize(
    ("status", "words"),
    [(404, "does not have it"), (401, "refused"), (403, "refused"), (410, "answered 410")],
)
def test_a_final_answer_is_not_asked_for_twice(server: hub_server.Hub, status: int, words: str) -> None:
    server.status = status
    assert_fails(words)
    assert len(server.asked) == 1 and strays() == set()


@pytest.mark.parametrize("kind", ["text/html", "text/html; charset=utf-8", "application/json"])
def test_a_page_is_no_model(server: hub_server.Hub, kind: str) -> None:
    server.content, server.content_type = b"<html>please log in</html>", kind
    assert_fails("sent a page")
    assert strays() == set()


def test_other_bytes_are_no_model(server: hub_server.Hub) -> None:
    server.content, server.says_hash = b"PK\x03\x04" * 5000, None
    assert_fails("not a GGUF file")
    assert strays() == set()


def test_a_wrong_hash_is_not_kept(server: hub_server.Hub, content: bytes) -> None:
    server.hash = "a" * 64
    assert_fails("is not what was expected")
    assert strays() == set()
    server.hash = ""
    assert get().read_bytes() == content


def test_another_file_than_the_catalog_s_is_not_even_fetched(server: hub_server.Hub, content: bytes) -> None:
    assert_fails("its SHA-256 differs", sha256="b" * 64)
    assert_fails(f"7 bytes were expected and the server has {len(content)}", size=7)
    assert strays() == set()


def test_a_wrong_hash_without_the_server_s_word_is_found_at_the_end(
    server: hub_server.Hub, content: bytes
) -> None:
    server.says_hash = None
    assert_fails("is not what was expected", sha256="c" * 64)
    assert get(hashlib.sha256(content).hexdigest(), len(content)).read_bytes() == content


def test_an_unknown_length_is_refused(server: hub_server.Hub, content: bytes) -> None:
    server.says_length = False
    assert_fails("does not say how long")
    assert get(size=len(content)).read_bytes() == content


def test_nobody_there(own_home: OwnHome, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        monkeypatch.setenv("TOKENLEAP_HUB", f"http://127.0.0.1:{closed.getsockname()[1]}")
        monkeypatch.setattr(hub, "BACKOFF_SECONDS", 0.0)
        assert "check the connection" in assert_fails("refused")


def test_a_nonsense_address_is_said(own_home: OwnHome, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "BACKOFF_SECONDS", 0.0)
    monkeypatch.setenv("TOKENLEAP_HUB", "nonsense")
    assert_fails("protocol")


def test_too_little_room_is_said_beforehand(server: hub_server.Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(Path.home())
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=99))
    with pytest.raises(NoSpaceError, match=rf"^{len(server.content)} bytes are needed .* 99 are free"):
        get()


def test_two_at_once_fetch_once(server: hub_server.Hub, content: bytes) -> None:
    found: list[bytes] = []
    threads = [threading.Thread(target=lambda: found.append(get().read_bytes())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == [content] * 3 and len(server.asked) == 1


@pytest.fixture
def entry() -> Entry:
    """An entry that only the hub has, with a licence of its own."""
    return Entry(
        id="tiny",
        title="Tiny",
        parameters="0",
        licence="Own",
        licence_note="only for tests",
        needs_consent=True,
        sources=(SOURCE,),
    )


def test_nothing_is_downloaded_unasked_or_without_consent(server: hub_server.Hub, entry: Entry) -> None:
    with pytest.raises(ModelMissingError, match="tokenleap models pull tiny"):
        store.ensure(entry, "int8")
    with pytest.raises(UsageError, match=r"only for tests.*--accept-licence"):
        store.ensure(entry, "int8", download=True)
    assert server.asked == []


def test_a_download_is_converted_and_then_dropped(server: hub_server.Hub, entry: Entry) -> None:
    folder = store.ensure(entry, "int8", download=True, consent=True)
    assert store.open_model(folder).source_sha256 == server.etag
    assert fetch.locate(entry) == [hub.path_of(SOURCE)] == fetch.downloads(entry)
    fetch.drop_download(entry)
    assert fetch.downloads(entry) == [] and fetch.locate(entry) is None
    assert store.ensure(entry, "int8") == folder
    assert len(server.asked) == 1


def test_a_download_spoilt_afterwards_is_found(server: hub_server.Hub, content: bytes, entry: Entry) -> None:
    known = replace(entry, sha256=hashlib.sha256(content).hexdigest(), needs_consent=False)
    get().write_bytes(content[:-1] + b"?")
    with pytest.raises(Exception, match=r"SHA-256 is .*tokenleap models rm tiny"):
        store.ensure(known, "int8", download=True)


def test_the_public_hub_is_the_default(own_home: OwnHome, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TOKENLEAP_HUB", raising=False)
    assert hub.endpoint() == hub.PUBLIC_HUB and hub.PUBLIC_HUB.startswith("https://")
    assert locations.cache_folder() in hub.folder().parents
